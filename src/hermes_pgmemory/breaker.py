"""A circuit breaker: after a failure, fail at once instead of waiting again.

A service that hangs costs one caller its whole budget. The next callers are
refused immediately until `retry_s` has passed; then one of them may try, and its
outcome decides for all.

One slow question is no outage: a database that answers, but this one too late, costs
the others nothing until it did so `BUSY_IN_A_ROW` times.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from hermes_pgmemory.errors import DatabaseBusy, Rejected, Unavailable

RETRY_S: Final = 15.0
"""Seconds between trials of a service that failed."""
BUSY_IN_A_ROW: Final = 3


class CircuitBreaker:
    """Guards one service. Thread-safe."""

    def __init__(
        self,
        *,
        retry_s: float = RETRY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start closed; *clock* gives seconds and never goes back."""
        self._retry_s = retry_s
        self._clock = clock
        self._mutex = threading.Lock()
        self._failure: Unavailable | None = None
        self._next_trial = 0.0
        self._busy = 0

    @property
    def failure(self) -> Unavailable | None:
        """Why the breaker is open, or None while it is closed."""
        return self._failure

    @contextmanager
    def guard(self) -> Generator[None]:
        """Run a call to the service, or raise the last failure at once.

        Raises:
            Unavailable: The failure that opened the breaker, or the call's own.
        """
        self._enter()
        try:
            yield
        except DatabaseBusy as exc:
            self._busy += 1
            if self._busy >= BUSY_IN_A_ROW:
                self.trip(exc)
            raise
        except Unavailable as exc:
            self.trip(exc)
            raise
        except Rejected:
            # An answer, if not the one hoped for: the service is there.
            self.reset()
            raise
        self.reset()

    def trip(self, failure: Unavailable) -> None:
        """Open the breaker because of *failure*."""
        with self._mutex:
            self._failure = failure
            self._next_trial = self._clock() + self._retry_s

    def reset(self) -> None:
        """Close the breaker: the service answered."""
        with self._mutex:
            self._failure = None
            self._busy = 0

    def _enter(self) -> None:
        with self._mutex:
            if self._failure is None:
                return
            now = self._clock()
            if now < self._next_trial:
                raise self._failure
            # This caller tries; the others go on failing at once meanwhile.
            self._next_trial = now + self._retry_s
