"""Slots: the files of a journal's folder, and who holds them.

A slot is an SQLite file with a lock file beside it. The lock is the kernel's and dies
with its holder, however it dies.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from hermes_pgmemory.errors import JournalUnavailable


def slots_of(folder: Path) -> list[Path]:
    """Return the slots of *folder*, in a fixed order."""
    return sorted(folder.glob("*.sqlite3"))


def lock_path(slot: Path) -> Path:
    """Return the lock file of *slot*."""
    return slot.with_suffix(".lock")


def try_lock(slot: Path) -> int | None:
    """Lock *slot* and return the descriptor; None when another process holds it."""
    path = lock_path(slot)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A slot can be retired between our open and our lock: then we hold the
        # lock of a file that has no name any more.
        if os.fstat(fd).st_ino == os.stat(path).st_ino:  # noqa: PTH116
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(fd)
    return None


def open_slot(slot: Path) -> sqlite3.Connection:
    """Open *slot* so that no statement on it ever waits for the disk by itself."""
    connection = sqlite3.connect(
        slot, timeout=2.0, isolation_level=None, check_same_thread=False
    )
    os.chmod(slot, 0o600)  # noqa: PTH101 - SQLite gives its mode to -wal and -shm
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


@contextmanager
def explained(verb: str, folder: Path) -> Generator[None]:
    """Turn SQLite's and the system's errors into one line about *folder*."""
    try:
        yield
    except (sqlite3.Error, OSError) as exc:
        reason = (
            os.strerror(exc.errno) if isinstance(exc, OSError) and exc.errno else exc
        )
        raise JournalUnavailable(
            f"cannot {verb} the journal in {folder}: {reason}"
        ) from exc
