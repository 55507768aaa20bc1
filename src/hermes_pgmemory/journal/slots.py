"""Slots: the files of a journal's folder, and who holds them.

A slot is an SQLite file with a lock file beside it. The lock is the kernel's and dies
with its holder, however it dies. Slots are numbered in the order in which the
processes that wrote to them started: clocks jump.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal
from uuid import uuid4

from hermes_pgmemory.errors import JournalUnavailable

_ADOPTION: Final = "adoption.lock"
_LOOK_S: Final = 0.05
_PATIENCE_S: Final = 10.0
"""Seconds to wait for another process before that is told as an outage."""


def slots_of(folder: Path) -> list[Path]:
    """Return the slots of *folder*, those of earlier processes first."""
    return sorted(folder.glob("*.sqlite3"))


def next_slot(folder: Path) -> Path:
    """Return a new slot's path, behind all others; nobody else can know its name."""
    numbers = [slot.name.partition("-")[0] for slot in slots_of(folder)]
    last = max((int(number) for number in numbers if number.isdecimal()), default=0)
    return folder / f"{last + 1:010}-{uuid4()}.sqlite3"


@contextmanager
def adoption(folder: Path, give_up: threading.Event, *, wait: bool) -> Generator[bool]:
    """Be the only process that takes over slots of *folder*, if told so.

    Without *wait*, false where another one is at it.

    Raises:
        JournalUnavailable: *give_up* was set while waiting, or it takes long.
    """
    with Explained("open", folder):
        # Somebody may have deleted it under a running process.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(folder / _ADOPTION, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        patience_until = time.monotonic() + _PATIENCE_S
        while not (mine := _flock(fd)) and wait:
            if give_up.wait(_LOOK_S) or time.monotonic() > patience_until:
                raise JournalUnavailable(
                    "another process still stores what earlier ones left"
                )
        yield mine
    finally:
        unlock(fd)


def unlock(fd: int) -> None:
    """Give a lock back, also where a forked child still holds the descriptor."""
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _flock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_path(slot: Path) -> Path:
    """Return the lock file of *slot*."""
    return slot.with_suffix(".lock")


def try_lock(slot: Path) -> int | None:
    """Lock *slot* and return the descriptor; None when another process holds it."""
    path = lock_path(slot)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # A slot can be retired between our open and our lock: then we hold the
        # lock of a file that has no name any more.
        if _flock(fd) and os.fstat(fd).st_ino == os.stat(path).st_ino:  # noqa: PTH116
            return fd
    except FileNotFoundError:
        pass
    os.close(fd)
    return None


def open_slot(slot: Path) -> sqlite3.Connection:
    """Open *slot* so that no statement on it ever waits for the disk by itself."""
    connection = sqlite3.connect(
        slot, timeout=2.0, isolation_level=None, check_same_thread=False
    )
    try:
        os.chmod(slot, 0o600)  # noqa: PTH101 - SQLite gives its mode to -wal and -shm
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except (sqlite3.Error, OSError):
        connection.close()
        raise
    return connection


def peek(
    slot: Path, *, mode: Literal["ro", "rw"] = "ro", wait_s: float = 5.0
) -> sqlite3.Connection:
    """Open a slot that may be another process's, and never make one.

    Waits for the owner's own write for *wait_s* seconds at most.
    """
    # As a URI's path: characters like # and ? would end it.
    name = f"{slot.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(name, uri=True, timeout=wait_s)


class Explained:
    """Turns SQLite's and the system's errors into one line about *folder*.

    A class, because a hook passes here: a generator takes three times as long.
    """

    __slots__ = ("_folder", "_verb")

    def __init__(self, verb: str, folder: Path) -> None:
        """Say what is being done, and where."""
        self._verb = verb
        self._folder = folder

    def __enter__(self) -> None:
        """Do nothing: only the end matters."""

    def __exit__(
        self, _kind: object, error: BaseException | None, _traceback: object
    ) -> None:
        """Raise `JournalUnavailable` in place of what the disk or SQLite raised."""
        if isinstance(error, sqlite3.Error | OSError):
            told = isinstance(error, OSError) and error.errno
            reason = os.strerror(told) if told else error
            raise JournalUnavailable(
                f"cannot {self._verb} the journal in {self._folder}: {reason}"
            ) from error
