"""What takes long to find out: looked up in the background, told again meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

from hermes_pgmemory.errors import PgMemoryError

KEPT_S: Final = 10.0
"""Seconds for which an answer is told again."""
KEPT_FACTOR: Final = 20.0
"""The same, as a multiple of the time that it took."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Glimpse(Generic[T]):
    """What is known at this moment."""

    value: T | None = None
    """The last answer there was; None before the first."""
    at: datetime | None = None
    """When that was looked up."""
    problem: str | None = None
    """Why the latest look failed, if it did."""


class Watched(Generic[T]):
    """Looks when somebody wants to know, and never keeps him waiting. Thread-safe."""

    def __init__(self, look: Callable[[], T], *, name: str) -> None:
        """Look at nothing yet; *name* is the thread's."""
        self._look = look
        self._name = name
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._due = float("-inf")
        self._latest: Glimpse[T] = Glimpse()

    def latest(self, *, patience_s: float) -> Glimpse[T]:
        """Return the last answer; wait a little only if there never was one."""
        with self._mutex:
            thread = self._thread
            if thread is None and time.monotonic() >= self._due:
                thread = threading.Thread(target=self._run, name=self._name)
                thread.daemon = True
                self._thread = thread
                thread.start()
            known = self._latest
        if thread is None or known.at or known.problem:
            return known
        thread.join(patience_s)
        return self._latest

    def close(self, *, timeout_s: float) -> None:
        """Wait for a look that is going on."""
        with self._mutex:
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        started = time.monotonic()
        latest = self._latest
        try:
            latest = self._looked(latest)
        finally:
            ended = time.monotonic()
            with self._mutex:
                self._latest = latest
                self._due = ended + max(KEPT_S, (ended - started) * KEPT_FACTOR)
                self._thread = None

    def _looked(self, before: Glimpse[T]) -> Glimpse[T]:
        try:
            return Glimpse(self._look(), datetime.now(UTC))
        except (PgMemoryError, OSError) as exc:
            return Glimpse(before.value, before.at, str(exc))
