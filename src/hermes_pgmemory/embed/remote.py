"""An endpoint that the operator named: OpenAI-compatible or Ollama, over HTTP."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import httpx

from hermes_pgmemory.config import SECTION
from hermes_pgmemory.embed.client import HttpClient, network_transport
from hermes_pgmemory.embed.urls import Address, Route
from hermes_pgmemory.embed.wire import (
    Answer,
    Item,
    failure,
    read_answer,
    request_body,
)
from hermes_pgmemory.errors import EmbedderUnavailable

BYTES_PER_TEXT: Final = 262_144
"""Room for one vector of 8,192 numbers, written out."""

BYTES_PER_ANSWER: Final = 1_048_576
"""Room for everything else in an answer."""

_NOT_HERE: Final = frozenset({404, 405})


class RemoteEndpoint:
    """Asks one host, and remembers which of its routes answers."""

    def __init__(
        self,
        address: Address,
        *,
        model: str,
        key_variable: str = "",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Keep what is needed; no I/O.

        Args:
            address: Where to ask.
            model: What to ask for.
            key_variable: Environment variable with the bearer key, read at each
                request so that a rotated key works; "" sends none.
            transport: For tests; else the network.
        """
        self._address = address
        self._model = model
        self._key_variable = key_variable
        self._known: Route | None = None
        url = address.routes[0].url
        self._client = HttpClient(
            address.host,
            lambda: transport or network_transport(url, loopback=address.loopback),
        )

    @property
    def host(self) -> str:
        """Host and port, without secrets."""
        return self._address.host

    def ask(self, texts: list[str], *, timeout_s: float) -> list[Item]:
        """See `Endpoint.ask`. Until a route is known, tries them in turn."""
        deadline = time.monotonic() + timeout_s
        refused: list[Answer] = []
        for route in (self._known,) if self._known else self._address.routes:
            left_s = max(deadline - time.monotonic(), 0.001)
            answer = self._post(route, texts, left_s)
            if answer.status not in _NOT_HERE:
                items = read_answer(
                    answer, len(texts), host=self.host, model=self._model
                )
                self._known = route
                return items
            refused.append(answer)
        self._known = None
        # Ollama says 404 for an unknown model, too; that answer tells the operator
        # more than the other route's.
        telling = [answer for answer in refused if b"model" in answer.body.lower()]
        answer = (telling or refused)[0]
        raise failure(answer, host=self.host, model=self._model)

    def _post(self, route: Route, texts: list[str], timeout_s: float) -> Answer:
        answer = self._client.post(
            route.url,
            request_body(route.dialect, self._model, texts),
            headers=self._authorization(),
            timeout_s=timeout_s,
            max_bytes=BYTES_PER_ANSWER + BYTES_PER_TEXT * len(texts),
        )
        if answer.status == HTTPStatus.UNAUTHORIZED and self._key_is_unset():
            raise EmbedderUnavailable(
                f"{self.host} answers 401 Unauthorized; the environment variable "
                f"{self._key_variable} that {SECTION}.embed_api_key_env names is not "
                "set"
            )
        return answer

    def _key_is_unset(self) -> bool:
        return bool(self._key_variable) and not os.environ.get(self._key_variable)

    def _authorization(self) -> Mapping[str, str]:
        key = os.environ.get(self._key_variable, "") if self._key_variable else ""
        key = key.strip()
        if key:
            if not (key.isascii() and key.isprintable()):
                # httpx would refuse it, too, but quote it.
                raise EmbedderUnavailable(
                    f"the key in {self._key_variable} holds characters that a header "
                    f"cannot carry; see {SECTION}.embed_api_key_env"
                )
            return {"Authorization": f"Bearer {key}"}
        if self._address.basic_auth:
            return {"Authorization": self._address.basic_auth}
        return {}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
