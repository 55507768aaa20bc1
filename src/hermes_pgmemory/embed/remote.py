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
    Encoding,
    Item,
    Refusal,
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
        self._encoding: Encoding | None = None
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
        """See `Endpoint.ask`. Learns the route, then how to spell vectors briefly."""
        deadline = time.monotonic() + timeout_s
        if self._known is None:
            return self._find_route(texts, deadline)
        if self._encoding is None and len(texts) > 1:
            return self._try_base64(self._known, texts, deadline)
        encoding = self._encoding or Encoding.FLOAT
        return self._ask_known(self._known, texts, deadline, encoding)

    def _find_route(self, texts: list[str], deadline: float) -> list[Item]:
        """Try the routes in turn, until one is there."""
        refused: list[Answer] = []
        for route in self._address.routes:
            answer = self._post(route, texts, deadline)
            if answer.status not in _NOT_HERE:
                items = self._read(answer, texts)
                self._known = route
                return items
            refused.append(answer)
        # Ollama says 404 for an unknown model, too; that answer tells the operator
        # more than the other route's.
        telling = [answer for answer in refused if b"model" in answer.body.lower()]
        answer = (telling or refused)[0]
        raise failure(answer, host=self.host, model=self._model)

    def _ask_known(
        self, route: Route, texts: list[str], deadline: float, encoding: Encoding
    ) -> list[Item]:
        answer = self._post(route, texts, deadline, encoding)
        if answer.status in _NOT_HERE:
            self._known = None
            raise failure(answer, host=self.host, model=self._model)
        return self._read(answer, texts)

    def _try_base64(
        self, route: Route, texts: list[str], deadline: float
    ) -> list[Item]:
        """Ask an endpoint that is known to answer for base64, once.

        One that refuses is asked again for floats. If it takes the same texts then,
        the encoding was to blame; if not, they were, and nothing is learned.
        """
        try:
            items = self._ask_known(route, texts, deadline, Encoding.BASE64)
        except Refusal:
            items = self._ask_known(route, texts, deadline, Encoding.FLOAT)
            self._encoding = Encoding.FLOAT
        else:
            self._encoding = Encoding.BASE64
        return items

    def _read(self, answer: Answer, texts: list[str]) -> list[Item]:
        return read_answer(answer, len(texts), host=self.host, model=self._model)

    def _post(
        self,
        route: Route,
        texts: list[str],
        deadline: float,
        encoding: Encoding = Encoding.FLOAT,
    ) -> Answer:
        answer = self._client.post(
            route.url,
            request_body(route.dialect, self._model, texts, encoding),
            headers=self._authorization(),
            timeout_s=max(deadline - time.monotonic(), 0.001),
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
