"""From a question to what is remembered: embed, search, all before a deadline.

Nothing here retries: the agent waits. A part that fails is left out and named in
`Answer.degraded`, and a circuit breaker spares the next question the wait.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

from hermes_pgmemory.breaker import CircuitBreaker
from hermes_pgmemory.embed import Embedder
from hermes_pgmemory.embedding_models import profile_for
from hermes_pgmemory.errors import (
    ConfigError,
    DimensionMismatch,
    PgMemoryError,
    Rejected,
    SchemaError,
    Unavailable,
)
from hermes_pgmemory.hygiene import MAX_QUERY_CHARS, storable
from hermes_pgmemory.identity import is_governed
from hermes_pgmemory.metrics import RECALL_DEGRADED
from hermes_pgmemory.models import (
    ANY,
    Entry,
    EntryHit,
    Facets,
    Scope,
    Target,
    ThemeCount,
    TurnHit,
    Vector,
)
from hermes_pgmemory.question import Question

EMBED_SHARE: Final = 0.6
"""Part of the remaining budget that embedding the question may use."""
SETTLE_SHARE: Final = 0.5
"""Part of the budget that a process's first questions wait for the database."""
CACHED_QUERIES: Final = 64

HitT = TypeVar("HitT")


class Library(Protocol):
    """What can be searched: the store, seen from here."""

    def search_entries(
        self,
        question: Question,
        *,
        target: Target | None = ...,
        exclude: Collection[str] = ...,
        timeout_s: float,
    ) -> list[EntryHit]:
        """Return memory entries, best first."""
        ...

    def search_turns(
        self,
        question: Question,
        *,
        session_id: str | None = ...,
        timeout_s: float,
    ) -> list[TurnHit]:
        """Return conversation turns, best first."""
        ...

    def list_entries(
        self,
        *,
        scope: Scope,
        target: Target | None = ...,
        holding: str = ...,
        limit: int,
        timeout_s: float,
    ) -> list[Entry]:
        """Return memory entries, newest first."""
        ...

    def counts(self, *, timeout_s: float) -> list[ThemeCount]:
        """Count what each theme holds."""
        ...


@dataclass(frozen=True)
class Answer(Generic[HitT]):
    """What was found, and what could not be asked."""

    hits: Sequence[HitT]
    degraded: str | None = None
    """One line on what is missing from this answer, or None."""
    failure: PgMemoryError | None = None
    """Why nothing could be searched at all, where that is so."""


class Deadline:
    """A point in time that a recall must not pass."""

    def __init__(self, budget_s: float) -> None:
        """End *budget_s* seconds from now."""
        self._end = time.monotonic() + budget_s

    def left_s(self) -> float:
        """Return the seconds left, at least a token hundredth."""
        return max(0.01, self._end - time.monotonic())


class Recall:
    """Asks the embedder and the library. Thread-safe."""

    def __init__(
        self,
        library: Library,
        embedder: Embedder,
        *,
        library_breaker: CircuitBreaker,
        embed_breaker: CircuitBreaker,
        settled: Callable[[float], str | None],
        half_life_days: float = 0.0,
    ) -> None:
        """Borrow the services.

        *settled* waits, for so many seconds at most, until the database has been
        looked at once, and returns why vectors cannot be compared, if so. With a
        half-life, old rows rank lower.
        """
        self._library = library
        self._embedder = embedder
        self._library_breaker = library_breaker
        self._embed_breaker = embed_breaker
        self._settled = settled
        self._half_life_days = half_life_days
        self._scale = profile_for(embedder.name).scale
        self._mutex = threading.Lock()
        self._vectors: OrderedDict[str, Vector] = OrderedDict()

    def entries(
        self,
        query: str,
        *,
        scope: Scope,
        target: Target | None,
        facets: Facets = ANY,
        limit: int,
        deadline: Deadline,
        exclude: Collection[str] = (),
    ) -> Answer[EntryHit]:
        """Return the memory entries that best answer *query*."""
        question, missing = self._question(query, scope, facets, limit, deadline)
        return self._search(
            question,
            missing,
            lambda question: self._library.search_entries(
                question, target=target, exclude=exclude, timeout_s=deadline.left_s()
            ),
        )

    def turns(
        self,
        query: str,
        *,
        scope: Scope,
        session_id: str | None,
        facets: Facets = ANY,
        limit: int,
        deadline: Deadline,
    ) -> Answer[TurnHit]:
        """Return the conversation turns that best answer *query*."""
        question, missing = self._question(query, scope, facets, limit, deadline)
        return self._search(
            question,
            missing,
            lambda question: self._library.search_turns(
                question, session_id=session_id, timeout_s=deadline.left_s()
            ),
        )

    def newest(
        self,
        *,
        scope: Scope,
        target: Target | None,
        holding: str = "",
        limit: int,
        deadline: Deadline,
    ) -> list[Entry]:
        """Return the newest entries, of those that hold *holding* as it is.

        Raises:
            Unavailable: The database does not answer in time.
        """
        self._settled(deadline.left_s() * SETTLE_SHARE)
        with self._library_breaker.guard():
            return self._library.list_entries(
                scope=scope,
                target=target,
                holding=holding,
                limit=limit,
                timeout_s=deadline.left_s(),
            )

    def themes(self, *, deadline: Deadline) -> list[ThemeCount]:
        """Count what each theme holds; the buckets of private chats are left out.

        Raises:
            Unavailable: The database does not answer in time.
        """
        self._settled(deadline.left_s() * SETTLE_SHARE)
        with self._library_breaker.guard():
            counts = self._library.counts(timeout_s=deadline.left_s())
        return [one for one in counts if not is_governed(one.theme)]

    def _question(
        self, query: str, scope: Scope, facets: Facets, limit: int, deadline: Deadline
    ) -> tuple[Question, str | None]:
        """Return what to ask the library, and why it has no vector, if so."""
        text = storable(query, max_chars=MAX_QUERY_CHARS)
        vector, missing = self._embed(text, deadline)
        question = Question(
            text=text,
            vector=vector,
            scope=scope,
            facets=facets,
            limit=limit,
            scale=self._scale,
            half_life_days=self._half_life_days,
        )
        return question, missing

    def _search(
        self,
        question: Question,
        missing: str | None,
        search: Callable[[Question], list[HitT]],
    ) -> Answer[HitT]:
        try:
            with self._library_breaker.guard():
                return Answer(search(question), missing)
        except DimensionMismatch as exc:
            # The database has just been moved to another model.
            wordy = replace(question, vector=None)
            return self._search(wordy, f"searched by words only: {exc}", search)
        except (Unavailable, SchemaError, ConfigError) as exc:
            RECALL_DEGRADED.labels(missing="database").inc()
            nothing: list[HitT] = []
            return Answer(nothing, f"memory cannot be searched: {exc}", exc)

    def _embed(self, text: str, deadline: Deadline) -> tuple[Vector | None, str | None]:
        """Return the question's vector, or why there is none."""
        # A process that has just started may have to start the database first.
        reason = self._settled(deadline.left_s() * SETTLE_SHARE)
        if not text or reason:
            if reason:
                RECALL_DEGRADED.labels(missing="model").inc()
            return None, reason
        with self._mutex:
            if text in self._vectors:
                self._vectors.move_to_end(text)
                return self._vectors[text], None
        try:
            with self._embed_breaker.guard():
                vector = self._embedder.embed_query(
                    text, timeout_s=deadline.left_s() * EMBED_SHARE
                )
        except (Unavailable, Rejected, ConfigError) as exc:
            RECALL_DEGRADED.labels(missing="embedder").inc()
            return None, f"searched by words only: {exc}"
        with self._mutex:
            self._vectors[text] = vector
            while len(self._vectors) > CACHED_QUERIES:
                self._vectors.popitem(last=False)
        return vector, None
