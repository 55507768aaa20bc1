"""A standby that is searched in the primary's place, where that makes no difference.

It does where the standby lacks what this process has stored, or what the primary
held `FRESH_S` ago. So a search asks the standby, in the same round trip, how far it
has come, and forgets what it found there if that is not far enough. Whatever goes
wrong with the standby, the primary answers, as if there were no standby.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

from hermes_pgmemory.breaker import CircuitBreaker
from hermes_pgmemory.errors import (
    BadRequest,
    ConfigError,
    DatabaseBusy,
    DatabaseUnavailable,
    PgMemoryError,
)
from hermes_pgmemory.metrics import STANDBY_SEARCHES
from hermes_pgmemory.models import Accepted, EntryHit, TurnHit, Vector
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.connection import BoundedConnection
from hermes_pgmemory.store.queries import QUERIES

KEY: Final = "plugins.pgvector.dsn_read"
"""The setting that holds the standby's connection string."""

FRESH_S: Final = 5.0
"""Seconds that what others have stored may be missing from an answer."""
MARK_S: Final = 0.5
"""Seconds that the primary may take to say how far it is."""
SHARE: Final = 0.5
"""Part of a search's time that the standby may use; the primary has the rest."""

HitT = TypeVar("HitT")

log = logging.getLogger("hermes_pgmemory")


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the primary's log had come at a point of the monotonic clock."""

    at: float = float("-inf")
    lsn: str | None = None
    memory: str | None = None
    """Which memory this is: a hash of the database's own key."""


class _Behind(Exception):
    """The standby lacks what must be in an answer."""


class _Standby(Store):
    """A store whose searches end in `_Behind` where it has not come to `mark`."""

    def __init__(
        self, dsn: str, mark: Callable[[], Mark], *, model: str | None
    ) -> None:
        super().__init__(dsn, key=KEY, model=model)
        self._mark = mark

    @contextmanager
    def _asking(
        self, timeout_s: float, deadline: float = math.inf
    ) -> Generator[BoundedConnection]:
        mark = self._mark()
        with super()._asking(timeout_s, deadline) as conn:
            # First, so that whatever the search sees is at least as new. The answer
            # comes along with the search's.
            standing = conn.execute(QUERIES["standing"], {"lsn": mark.lsn})
            yield conn
        holds, memory = standing.fetchall()[0]
        if mark.memory is not None and memory != mark.memory:
            raise ConfigError({KEY: "not a standby of plugins.pgvector.dsn"})
        if holds is False:
            raise _Behind


class ReplicatedStore(Store):
    """A primary, and a standby that is searched first."""

    def __init__(self, dsn: str, dsn_read: str, *, model: str | None = None) -> None:
        """Prepare; nothing connects yet.

        Args:
            dsn: The primary, or all servers with `target_session_attrs=read-write`.
            dsn_read: The standby, in either of libpq's forms.
            model: See `Store`.

        Raises:
            ConfigError: libpq cannot parse one of them.
        """
        super().__init__(dsn, model=model)
        self._mark = Mark()
        self._written_at = float("-inf")
        self._mutex = threading.Lock()
        self._mark_breaker = CircuitBreaker()
        self._standby = _Standby(dsn_read, lambda: self._mark, model=model)
        self._breaker = CircuitBreaker()
        self._failing = False

    def close(self) -> None:
        """Close the connections to both."""
        self._standby.close()
        super().close()

    def apply(
        self,
        batch: Sequence[Accepted],
        vectors: Mapping[int, Vector],
        *,
        timeout_s: float = 30,
    ) -> int:
        """Apply *batch* like any store, and note how far a standby must be for it."""
        try:
            return super().apply(batch, vectors, timeout_s=timeout_s)
        finally:
            # Also after a failure: nobody knows whether it was one.
            self._written_at = monotonic()
            self._mark_breaker.reset()
            self._renew()

    def search_entries(
        self, question: Question, *, timeout_s: float, **asked: Any
    ) -> list[EntryHit]:
        """Search the standby or the primary; see `Store.search_entries`."""
        primary = partial(super().search_entries, question, **asked)
        standby = partial(self._standby.search_entries, question, **asked)
        return self._search(standby, primary, timeout_s)

    def search_turns(
        self, question: Question, *, timeout_s: float, **asked: Any
    ) -> list[TurnHit]:
        """Search the standby or the primary; see `Store.search_turns`."""
        primary = partial(super().search_turns, question, **asked)
        standby = partial(self._standby.search_turns, question, **asked)
        return self._search(standby, primary, timeout_s)

    def _search(
        self,
        standby: Callable[..., list[HitT]],
        primary: Callable[..., list[HitT]],
        timeout_s: float,
    ) -> list[HitT]:
        deadline = monotonic() + timeout_s
        self._renew()
        if self._mark.at < self._written_at:
            # What a standby must have for our own last batch is not known.
            with suppress(DatabaseUnavailable):
                return primary(timeout_s=timeout_s * SHARE)
        try:
            with self._breaker.guard():
                left = deadline - monotonic()
                hits = standby(timeout_s=max(0.01, left * SHARE))
        except BadRequest:
            raise
        except _Behind:
            STANDBY_SEARCHES.labels(outcome="behind").inc()
        except PgMemoryError as exc:
            STANDBY_SEARCHES.labels(outcome="failed").inc()
            # One slow question says nothing about the next one.
            if not isinstance(exc, DatabaseBusy) or self._breaker.failure is not None:
                self._note(exc)
        else:
            STANDBY_SEARCHES.labels(outcome="answered").inc()
            self._note(None)
            return hits
        return primary(timeout_s=max(0.01, deadline - monotonic()))

    def _renew(self) -> None:
        """Ask the primary how far it is, unless what is known is new enough.

        While it does not answer, nobody stores anything: what was known, holds.
        """
        started = monotonic()
        if self._mark.at > max(self._written_at, started - FRESH_S):
            return
        try:
            with self._mark_breaker.guard(), self._database.transaction(MARK_S) as conn:
                lsn, memory = conn.execute(QUERIES["mark"]).fetchall()[0]
        except PgMemoryError as exc:
            log.debug("the primary does not say how far it is: %s", exc)
            return
        with self._mutex:
            # Two threads may ask at once; what was asked later, counts.
            if started > self._mark.at:
                self._mark = Mark(started, lsn, memory)

    def _note(self, failure: PgMemoryError | None) -> None:
        """Tell once that the standby is left out, and once that it is back."""
        if failure is not None and self._breaker.failure is None:
            self._breaker.trip(DatabaseUnavailable(str(failure)))
        with self._mutex:
            news = self._failing != (failure is not None)
            self._failing = failure is not None
        if news and failure is not None:
            log.warning("recall asks the primary instead of the standby: %s", failure)
        elif news:
            log.warning("recall asks the standby again")
