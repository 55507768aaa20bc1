"""The one Embedder: prefixes, dimension, patience. Endpoints plug in below it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, Protocol

from hermes_pgmemory.embed.batch import CANARY, BatchLimit, DocumentBatch
from hermes_pgmemory.embed.client import Bounded
from hermes_pgmemory.embed.wire import BadVector, Item, Refusal, clean
from hermes_pgmemory.embedding_models import ModelProfile
from hermes_pgmemory.errors import (
    DimensionMismatch,
    EmbedderUnavailable,
    UnembeddableText,
)
from hermes_pgmemory.metrics import EMBED_TEXTS
from hermes_pgmemory.models import EmbeddingModel, Vector

QUERY_CHARS: Final = 2000
"""Longest query embedded whole; of a longer one both ends are kept."""


_EMBEDDED: Final = EMBED_TEXTS.labels(source="model")
_TWINS: Final = EMBED_TEXTS.labels(source="batch")


class Endpoint(Protocol):
    """Something that answers one request for vectors."""

    @property
    def host(self) -> str:
        """What to call it in messages."""
        ...

    def ask(self, texts: list[str], *, timeout_s: float) -> list[Item]:
        """Return one item per text; raise Refusal or EmbedderUnavailable."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class EndpointEmbedder:
    """An `Embedder` over one endpoint and one model."""

    def __init__(
        self, endpoint: Endpoint, *, name: str, profile: ModelProfile, largest: int
    ) -> None:
        """Keep what is needed; no I/O.

        Args:
            endpoint: Who embeds.
            name: The model's name as configured.
            profile: Its prefixes.
            largest: Texts a request may hold at first, at least 1.
        """
        self._endpoint = endpoint
        self._name = name
        self._profile = profile
        self._limit = BatchLimit(largest)
        self._bounded = Bounded(endpoint.host)
        self._lock = threading.Lock()
        self._dimension: int | None = None
        self._changed = False

    @property
    def name(self) -> str:
        """The model's name as configured."""
        return self._name

    @property
    def batch(self) -> int:
        """See `Embedder.batch`."""
        return self._limit.size

    def probe(self, *, timeout_s: float) -> EmbeddingModel:
        """See `Embedder.probe`. After a DimensionMismatch it asks anew."""
        dimension = self._dimension
        if dimension is None or self._changed:
            dimension = len(self._ask_canary(timeout_s))
            with self._lock:
                self._dimension = dimension
                self._changed = False
        return EmbeddingModel(
            name=self._name,
            dimension=dimension,
            query_prefix=self._profile.query_prefix,
            document_prefix=self._profile.document_prefix,
        )

    def embed_query(self, text: str, *, timeout_s: float) -> Vector:
        """See `Embedder.embed_query`."""
        if not text.strip():
            raise UnembeddableText("the query is blank")
        query = self._profile.query_prefix + _both_ends(clean(text))
        try:
            item = self._ask([query], timeout_s)[0]
        except Refusal as refusal:
            if refusal.blames_input and self._dimension is not None:
                raise UnembeddableText(refusal.reason) from None
            raise refusal.unavailable() from None
        if isinstance(item, list):
            return item
        raise UnembeddableText(_complaint(self._endpoint.host, item))

    def embed_documents(
        self, texts: Sequence[str], *, timeout_s: float
    ) -> list[Vector | UnembeddableText]:
        """See `Embedder.embed_documents`."""
        prefix = self._profile.document_prefix
        outcomes: list[Vector | UnembeddableText] = [
            UnembeddableText("the text is blank") for _ in texts
        ]
        # Each text once, whoever says it how often.
        places: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            if text.strip():
                places.setdefault(prefix + clean(text), []).append(place)
        batch = DocumentBatch(
            lambda part: self._ask(part, timeout_s), self._limit, canary=prefix + CANARY
        )
        embedded = batch.embed(list(places))
        for same, outcome in zip(places.values(), embedded, strict=True):
            for place in same:
                outcomes[place] = outcome
        _EMBEDDED.inc(len(places))
        _TWINS.inc(sum(map(len, places.values())) - len(places))
        return outcomes

    def close(self) -> None:
        """See `Embedder.close`."""
        self._endpoint.close()

    def _ask_canary(self, timeout_s: float) -> list[float]:
        canary = self._profile.query_prefix + CANARY
        try:
            item = self._request([canary], timeout_s)[0]
        except Refusal as refusal:
            raise refusal.unavailable() from None
        if not isinstance(item, list):
            raise EmbedderUnavailable(_complaint(self._endpoint.host, item))
        return item

    def _ask(self, texts: list[str], timeout_s: float) -> list[Item]:
        items = self._request(texts, timeout_s)
        self._check_dimension(items)
        return items

    def _request(self, texts: list[str], timeout_s: float) -> list[Item]:
        return self._bounded.run(
            lambda: self._endpoint.ask(texts, timeout_s=timeout_s), timeout_s=timeout_s
        )

    def _check_dimension(self, items: list[Item]) -> None:
        """Hold every vector of this process to the first one's length.

        Raises:
            DimensionMismatch: One differs.
        """
        with self._lock:
            for item in items:
                if not isinstance(item, list):
                    continue
                if self._dimension is None:
                    self._dimension = len(item)
                if len(item) != self._dimension:
                    self._changed = True
                    raise DimensionMismatch(expected=self._dimension, got=len(item))


def _complaint(host: str, item: BadVector | None) -> str:
    what = item.reason if isinstance(item, BadVector) else "no vector"
    return f"{host} returns {what}"


def _both_ends(text: str) -> str:
    """Leave out the middle of a long query: questions stand before or after it."""
    if len(text) <= QUERY_CHARS:
        return text
    half = QUERY_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"
