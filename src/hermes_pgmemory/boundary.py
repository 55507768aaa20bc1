"""The one place where an exception stops.

The host must never see us fail, and an operator must always see us fail. Each
provider hook passes through `fail_soft` exactly once; below it, code raises.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from hermes_pgmemory.errors import PgMemoryError
from hermes_pgmemory.metrics import HOOK_FAILURES, HOOK_SECONDS, LaterObserved

P = ParamSpec("P")
R = TypeVar("R")

QUIET_S: Final = 300.0
"""Seconds between two warnings about the same kind of failure of one hook."""

log = logging.getLogger("hermes_pgmemory")


def fail_soft(fallback: R) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a host hook return *fallback* instead of raising.

    The first failure of a kind, and one per `QUIET_S` after that, is a warning;
    the ones between are debug. Our own errors are told in one line, surprises with
    a traceback. Interrupts pass through.
    """

    def wrap(hook: Callable[P, R]) -> Callable[P, R]:
        took_s = LaterObserved(HOOK_SECONDS.labels(hook=hook.__name__))
        last_warned: dict[type[Exception], float] = {}

        @functools.wraps(hook)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            started = time.perf_counter()
            try:
                return hook(*args, **kwargs)
            except Exception as exc:
                HOOK_FAILURES.labels(hook=hook.__name__).inc()
                now = time.monotonic()
                loud = now - last_warned.get(type(exc), -QUIET_S) >= QUIET_S
                if loud:
                    last_warned[type(exc)] = now
                surprise = None if isinstance(exc, PgMemoryError) else exc
                log.log(
                    logging.WARNING if loud else logging.DEBUG,
                    "%s: %s",
                    hook.__name__,
                    exc if surprise is None else type(exc).__name__,
                    exc_info=surprise,
                )
                return fallback
            finally:
                took_s.note(time.perf_counter() - started)

        return guarded

    return wrap
