"""The thread that drains one journal, and what it knows about outages."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from hermes_pgmemory.batcher import Batcher
from hermes_pgmemory.boundary import fail_soft
from hermes_pgmemory.errors import (
    ConfigError,
    DatabaseBusy,
    DatabaseUnavailable,
    PgMemoryError,
    SchemaError,
    Unavailable,
)
from hermes_pgmemory.journal import Journal

LINGER_S: Final = 0.02
"""Seconds without a new write after which a batch is taken."""
MAX_LINGER_S: Final = 0.25
"""Seconds after which it is taken even though writes keep coming."""
MAX_PAUSE_S: Final = 30.0

T = TypeVar("T")

log = logging.getLogger("hermes_pgmemory")


@dataclass(frozen=True, slots=True)
class Outage:
    """Why writing stands still, and since when (Unix time)."""

    since: float
    reason: str
    for_operator: bool = False
    """Whether waiting cannot end it: something must be changed."""


class Chore:
    """Work of an idle writer, that may fail and hold up nothing but itself."""

    def __init__(self, name: str, work: Callable[[], float | None]) -> None:
        """Do *work*, which may return when to come back, in seconds; *name* it."""
        self._name = name
        self._work = work
        self._trouble: str | None = None
        self._pause_s = 0.0
        self._not_before = 0.0

    def run(self) -> float | None:
        """Do it, unless it failed a moment ago; return when to come back, if at all."""
        now = time.monotonic()
        if now < self._not_before:
            return self._not_before - now
        try:
            again_s = self._work()
        # Told, and tried again: above, it would pass for an outage of all writing.
        except Exception as exc:  # noqa: BLE001
            self._tell(exc)
            self._pause_s = _longer(self._pause_s)
            self._not_before = time.monotonic() + self._pause_s
            return self._pause_s
        self._trouble, self._pause_s = None, 0.0
        return again_s

    def _tell(self, exc: Exception) -> None:
        """Warn, once for each reason; an outage is the writer's to tell."""
        if isinstance(exc, DatabaseUnavailable) and not isinstance(exc, DatabaseBusy):
            log.info("%s waits: %s", self._name, exc)
            return
        ours = isinstance(exc, PgMemoryError | OSError)
        why = str(exc) if ours else type(exc).__name__
        if why != self._trouble:
            self._trouble = why
            log.warning("%s waits: %s", self._name, why, exc_info=None if ours else exc)


@fail_soft(None)
def _tell_of_outage(listener: Callable[[T], None], news: T) -> None:
    """Tell *news* to somebody whose failure must not end the thread."""
    listener(news)


def _longer(pause_s: float) -> float:
    longer = min(max(pause_s * 2, 0.5), MAX_PAUSE_S)
    return longer * random.uniform(0.75, 1.25)  # noqa: S311 - jitter


class Writer:
    """Drains one journal on a thread of its own, through any outage."""

    def __init__(
        self,
        journal: Journal,
        batcher: Batcher,
        *,
        before: Callable[[], None],
        when_idle: Callable[[], float | None] = lambda: None,
        when_outage: Callable[[Outage], None] = lambda _: None,
        when_over: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Drain *journal* with *batcher*. All that it calls runs on its thread.

        Args:
            journal: Whose writes to store.
            batcher: How to store them.
            before: Called until it succeeds once, and again after an outage: brings
                up what the store needs and raises what it misses.
            when_idle: Called whenever the journal has run empty; may return the
                seconds after which it wants to be called again. It raises nothing:
                what it fails at is a `Chore`'s trouble, and no outage of writing.
            when_outage: Told that an outage began or has another reason.
            when_over: Told that it is over, in one line.
        """
        self._journal = journal
        self._batcher = batcher
        self._before = before
        self._when_idle = when_idle
        self._when_outage = when_outage
        self._when_over = when_over
        self._ready = False
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._idle = threading.Event()
        self._thread: threading.Thread | None = None
        self._ending = threading.Lock()
        self._ended = False
        self._then: Callable[[], None] | None = None
        self.outage: Outage | None = None
        self._kept = 0

    def start(self) -> None:
        """Start the thread; a second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._main, name="pgmemory-writer", daemon=True
            )
            self._thread.start()

    def wake(self) -> None:
        """Say that the journal holds something new."""
        # Looking is cheaper than setting, and enough: who clears an event reads the
        # journal afterwards.
        if self._idle.is_set():
            self._idle.clear()
        if not self._wake.is_set():
            self._wake.set()

    def flush(self, *, timeout_s: float) -> bool:
        """Wait until this journal, and what *before* takes over, have run empty.

        False when time runs out first, or an outage stands in the way.
        """
        deadline = time.monotonic() + timeout_s
        self.wake()
        while self.outage is None and time.monotonic() < deadline:
            if self._idle.wait(min(0.05, max(0.0, deadline - time.monotonic()))):
                if not self._journal.depth:
                    return True
                self.wake()
        return False

    def stop(self, *, timeout_s: float, then: Callable[[], None]) -> None:
        """End the thread after its current batch, and run *then* once it ended.

        Waits up to *timeout_s*; a thread that takes longer runs *then* itself.
        """
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        with self._ending:
            if self._thread is not None and not self._ended:
                self._then = then
                return
        then()

    def _main(self) -> None:
        try:
            self._run()
        finally:
            with self._ending:
                self._ended = True
                then = self._then
            if then is not None:
                then()

    def _run(self) -> None:
        pause_s = 0.0
        while not self._stopping.is_set():
            again_s: float | None = None
            try:
                again_s = self._drain()
                pause_s = 0.0
            except (Unavailable, SchemaError, ConfigError) as exc:
                pause_s = self._note_outage(exc, pause_s)
            except Exception as exc:  # this thread outlives any batch
                # Our own errors are one line; their causes may quote a row.
                surprise = None if isinstance(exc, PgMemoryError) else exc
                log.warning("the writer met a surprise: %s", exc, exc_info=surprise)
                pause_s = self._note_outage(exc, pause_s)
            if pause_s:
                # Waiting on `stopping`, not on `wake`: new writes must not turn an
                # outage into a busy loop.
                self._stopping.wait(pause_s)
            elif self._wake.wait(again_s):
                self._linger()

    def _linger(self) -> None:
        """Let a burst of writes end.

        A batch gathers, and no hook shares the interpreter with what follows.
        """
        latest = time.monotonic() + MAX_LINGER_S
        self._wake.clear()
        while not self._stopping.wait(LINGER_S):
            if not self._wake.is_set() or time.monotonic() > latest:
                return
            self._wake.clear()

    def _drain(self) -> float | None:
        if not self._ready:
            self._before()
            self._ready = True
        if self.outage is not None:
            self._kept = max(self._kept, self._journal.depth)
        while not self._stopping.is_set() and self._batcher.drain_once(self._journal):
            pass
        self._note_recovery()
        if not self._journal.depth:
            self._idle.set()
        return self._when_idle()

    def _note_outage(self, exc: Exception, pause_s: float) -> float:
        """Warn once per outage; return the seconds to wait before the next try."""
        # What a surprise says may quote a row.
        why = str(exc) if isinstance(exc, PgMemoryError) else type(exc).__name__
        lasting = isinstance(exc, SchemaError | ConfigError)
        before = self.outage
        if before is None:
            log.warning("writes are kept in the journal: %s", why)
            self.outage = Outage(time.time(), why, lasting)
        elif why != before.reason:
            log.warning("writes are still kept in the journal, now because: %s", why)
            self.outage = Outage(before.since, why, lasting)
        if self.outage is not None and self.outage != before:
            _tell_of_outage(self._when_outage, self.outage)
        # What `before` checked may not hold after an outage.
        self._ready = False
        return _longer(pause_s)

    def _note_recovery(self) -> None:
        if self.outage is not None:
            lasted_s = time.time() - self.outage.since
            line = (
                f"writing again after {lasted_s:.0f} s; "
                f"{self._kept} writes were kept, none was lost"
            )
            log.warning("%s", line)
            self.outage = None
            self._kept = 0
            _tell_of_outage(self._when_over, line)
