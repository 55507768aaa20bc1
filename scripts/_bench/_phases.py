"""Where the time of a call goes: each moment counts for one phase, the innermost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from hermes_pgmemory import provider, tool_calls
from hermes_pgmemory.embed import Embedder
from hermes_pgmemory.store.connection import BoundedConnection, Database

PLACES = (
    (Database, "_checkout", "wait"),
    (BoundedConnection, "wait", "sql"),
    (provider.render, "ambient", "format"),
    *((tool_calls.render, name, "format") for name in ("entries_json", "turns_json")),
)
"""What is timed: where it is, its name, and the phase that it is."""
REST = "fuse"
"""What no other phase is: what is asked, and what becomes of the answer."""
PHASES = ("embed", "wait", "sql", REST, "format")


class Phases:
    """A stop-watch with a hand for every phase, of the thread that made it."""

    def __init__(self) -> None:
        """Start with nothing spent."""
        self._thread = threading.get_ident()
        self._now = [REST]
        self._since = 0.0
        self._spent: Counter[str] = Counter()

    @contextmanager
    def running(self, embedder: Embedder) -> Iterator[None]:
        """Time all that this thread does meanwhile, once it calls `lap`."""
        with ExitStack() as stack:
            for owner, name, phase in (*PLACES, (embedder, "embed_query", "embed")):
                timed = self._timed(phase, getattr(owner, name))
                stack.enter_context(patch.object(owner, name, timed))
            yield

    def lap(self, call: Callable[[], object]) -> dict[str, float]:
        """Return the milliseconds that *call* spends in each phase."""
        self._spent.clear()
        self._since = time.perf_counter()
        call()
        self._note()
        return {phase: self._spent[phase] * 1e3 for phase in PHASES}

    def _note(self) -> None:
        now = time.perf_counter()
        self._spent[self._now[-1]] += now - self._since
        self._since = now

    def _timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed(*args: Any, **more: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*args, **more)
            self._note()
            # Taking a connection includes asking whether it is alive.
            self._now.append("wait" if self._now[-1] == "wait" else phase)
            try:
                return function(*args, **more)
            finally:
                self._note()
                self._now.pop()

        return timed
