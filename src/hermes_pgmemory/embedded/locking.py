"""The right to work in the server's folder.

One lock serves both questions "who starts the server?" and "does any process of
it still live?": the starter hands the locked file on to what it starts, and the
kernel releases the lock with the last process that has it open. It holds where
process ids mislead: after a crash, after a reboot, between containers.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_held: set[int] = set()


def _forget_in_child() -> None:
    """Close what a forked child got by accident: it would pass for the server."""
    for fd in _held:
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)


@contextmanager
def try_lock(path: Path) -> Generator[int | None]:
    """Yield the locked file, or None if somebody else holds the lock.

    On leaving, the file is closed, not unlocked: who inherited it keeps the lock.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    _held.add(fd)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield fd
    finally:
        _held.discard(fd)
        os.close(fd)
