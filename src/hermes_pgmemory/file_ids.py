"""What a home's memory files are called in the database: by neither host nor path.

Host names change with every container, and paths are alike on many hosts. So a home
keeps an id of its own beside its journal. A copy of the home is another home, whose
files go their own way: the id is bound to the inode of the file that holds it, and
whoever finds it in another inode takes a new one and remembers the old as an ancestor.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hermes_pgmemory.paths import HomePaths

ID_FILE: Final = "home-id"
MAX_ANCESTORS: Final = 8

_mutex = threading.Lock()
_homes: dict[Path, tuple[str, ...]] = {}


def file_ids(paths: HomePaths, name: str) -> tuple[str, ...]:
    """Return the id of the memory file *name*, 16 hex digits, then its ancestors'."""
    return tuple(
        hashlib.sha256(f"{home}:{name}".encode()).hexdigest()[:16]
        for home in home_ids(paths)
    )


def home_ids(paths: HomePaths) -> tuple[str, ...]:
    """Return this home's id, then those of the homes that it was copied from.

    Made at the first call and kept by the process. Where the state folder cannot be
    written, host and path have to do.
    """
    with _mutex:
        if paths.state not in _homes:
            try:
                _homes[paths.state] = _on_disk(paths.state)
            except OSError:
                _homes[paths.state] = (f"{socket.gethostname()}:{paths.home}",)
        return _homes[paths.state]


def _on_disk(folder: Path) -> tuple[str, ...]:
    path = folder / ID_FILE
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(folder):
        said = path.read_text().split() if path.exists() else []
        known = said[1:]
        if known and said[0] == str(path.stat().st_ino):
            return tuple(known)
        ids = [secrets.token_hex(16), *known[:MAX_ANCESTORS]]
        _replace(path, ids)
        return tuple(ids)


def _replace(path: Path, ids: list[str]) -> None:
    """Write *ids* below the inode of the very file that holds them, atomically."""
    fresh = path.with_name(f"{ID_FILE}.{secrets.token_hex(4)}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write("\n".join([str(os.fstat(fd).st_ino), *ids, ""]))
    fresh.replace(path)


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Keep other processes of the home out, lest one home gets two ids."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
