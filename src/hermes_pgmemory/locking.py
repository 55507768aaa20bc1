"""Locks among the processes of a host, and among the threads of each.

The kernel's own, on a file made for it: they die with their holder, however it dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LOOK_S: Final = 0.01


@contextmanager
def alone(lock: Path, *, patience_s: float | None = None) -> Generator[None]:
    """Hold the file *lock*, made if need be, exclusively while the body runs.

    Waits for whoever holds it; for at most *patience_s* seconds, if given.

    Raises:
        OSError: It cannot be made, or is still held by then (`BlockingIOError`).
    """
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(fd, patience_s)
        yield
    finally:
        # A forked child may still hold the descriptor.
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def _take(fd: int, patience_s: float | None) -> None:
    if patience_s is None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        return
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise BlockingIOError(
                    errno.EAGAIN, "another process is still at it"
                ) from None
            time.sleep(_LOOK_S)
        else:
            return
