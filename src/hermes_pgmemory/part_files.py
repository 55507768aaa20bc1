"""Files that are written beside others, to take their places once they are whole.

What a killed process left of one goes when somebody next writes the same file. Its
writer holds it locked: the kernel knows who lives.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger("hermes_pgmemory")


@contextmanager
def part_of(
    path: Path, *, tell: Callable[[str], None] = log.warning
) -> Generator[Path]:
    """Yield a new file beside *path*, 0600 and empty, for the body to fill.

    It goes when the body ends, unless that has renamed it. What processes that are
    gone left of such files is removed first; *tell* is given a line on each.

    Raises:
        OSError: It cannot be made.
    """
    for stray in _strays(path):
        tell(f"removed {stray}: a run that was killed had left it")
    fresh, fd = _made(path)
    try:
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)
        os.close(fd)


def _made(path: Path) -> tuple[Path, int]:
    while True:
        fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Between the two, another process may take it for a stray.
        fcntl.flock(fd, fcntl.LOCK_EX)
        if _is(fresh, fd):
            return fresh, fd
        os.close(fd)


def _strays(path: Path) -> Generator[Path]:
    """Remove what processes that are gone left beside *path*; yield what that was."""
    name = re.compile(rf"{re.escape(path.name)}\.[0-9a-f]{{8}}\.part")
    found = [one for one in path.parent.glob("*.part") if name.fullmatch(one.name)]
    for stray in found:
        try:
            fd = os.open(stray, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # gone by now, or not ours
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(stray, fd):
                stray.unlink()
                yield stray
        except OSError:
            continue  # its writer lives, or the folder is another's
        finally:
            os.close(fd)


def _is(path: Path, fd: int) -> bool:
    """Tell whether *path* still names the open file."""
    try:
        return os.fstat(fd).st_ino == path.lstat().st_ino
    except FileNotFoundError:
        return False
