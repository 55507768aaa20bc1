"""What a call touches outside itself, by Python's audit events."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_OUTSIDE = {"socket.connect", "socket.getaddrinfo", "sqlite3.connect"}
_OUTSIDE |= {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_seen: list[list[str]] = []


def _note(event: str, args: tuple[Any, ...]) -> None:
    if not _seen:
        return
    if event in _OUTSIDE:
        _seen[-1].append(event)
    elif event == "open" and len(args) > 2 and args[2] & _WRITING:
        _seen[-1].append(f"writes {args[0]}")


@contextmanager
def watched() -> Iterator[list[str]]:
    """Collect what is done meanwhile, by any thread; reading files is not counted."""
    if not _installed:
        _installed.append(True)
        # There is no way to take one out again.
        sys.addaudithook(_note)
    seen: list[str] = []
    _seen.append(seen)
    try:
        yield seen
    finally:
        _seen.pop()


_installed: list[bool] = []
