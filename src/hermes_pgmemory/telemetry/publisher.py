"""This process's own snapshot. One file, however many engines it runs.

Nothing here is on a hook's path, and nothing fails: numbers are worth less than
what they count.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from hermes_pgmemory.metrics import readings
from hermes_pgmemory.telemetry.folder import (
    Key,
    Snapshot,
    gather,
    lock_path,
    try_lock,
    write,
)

EVERY_S: Final = 5.0
"""Seconds between two snapshots at least, unless the process stops."""
_RATE_S: Final = 60.0
_STORED: Final[Key] = ("pgmemory_writes_total", "stored")

log = logging.getLogger("hermes_pgmemory")

Trouble = Callable[[], Mapping[str, str]]
"""Says, by service, why the last try of it failed."""


class Publisher:
    """Writes one process's snapshots. Thread-safe."""

    def __init__(self, inherited: Mapping[Key, float]) -> None:
        """Publish what is counted beyond *inherited*: that is another process's."""
        self._inherited = inherited
        self._mutex = threading.Lock()
        self._path: Path | None = None
        self._lock: int | None = None
        self._sources: list[Trouble] = []
        self._at = float("-inf")
        self._written = ""
        self._stored = deque([(time.monotonic(), 0.0)])

    def join(self, folder: Path, trouble: Trouble) -> None:
        """Publish in *folder*, unless the process publishes in another already."""
        with self._mutex:
            self._sources.append(trouble)
            if self._path is None:
                self._path = folder / _new_name()

    def leave(self, trouble: Trouble) -> None:
        """Ask *trouble* no more, and publish at once."""
        with self._mutex:
            if trouble in self._sources:
                self._sources.remove(trouble)
        self.publish(now=True)

    def publish(self, *, now: bool = False) -> None:
        """Write a snapshot if it is time, or *now*, and something has changed."""
        with self._mutex:
            moment = time.monotonic()
            if self._path is None or (not now and moment - self._at < EVERY_S):
                return
            self._at = moment
            text = self._look(moment).encode()
            try:
                path = self._claimed(self._path)
                if text != self._written:
                    write(path, text)
                    self._written = text
            except OSError as exc:
                log.debug("numbers are not published: %s", exc)

    def counted(self) -> dict[Key, float]:
        """Return what this process has counted itself."""
        before = self._inherited
        with _reading:
            now = dict(readings())
        return {
            key: own
            for key, value in now.items()
            if (own := value - before.get(key, 0.0)) > 0
        }

    def _look(self, moment: float) -> Snapshot:
        counted = self.counted()
        stored = counted.get(_STORED, 0.0)
        self._stored.append((moment, stored))
        while len(self._stored) > 1 and moment - self._stored[1][0] >= _RATE_S:
            self._stored.popleft()
        trouble: dict[str, str] = {}
        for source in self._sources:
            trouble |= source()
        return Snapshot(
            counted=counted,
            # Nobody looks again once the last engine is closed.
            stored_last_minute=stored - self._stored[0][1] if self._sources else 0.0,
            trouble=trouble,
        )

    def _claimed(self, path: Path) -> Path:
        """Return *path* once its lock is ours; another if somebody removed the lock."""
        if self._lock is not None and _same(self._lock, lock_path(path)):
            return path
        self.let_go()
        self._written = ""
        path.parent.mkdir(mode=0o700, exist_ok=True)
        # Nobody waits for another here: this thread has a journal to sync.
        with suppress(BlockingIOError):
            gather(path.parent, patience_s=0.0)
        while self._lock is None:
            path = self._path = path.with_name(_new_name())
            self._lock = try_lock(lock_path(path))
            # Somebody took a lock without a file for one that a dead process left.
            if self._lock is not None and not _same(self._lock, lock_path(path)):
                self.let_go()
        return path

    def let_go(self) -> None:
        """Close the lock: ours, or the parent's in a forked child."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _new_name() -> str:
    return f"process-{uuid4()}.json"


def _same(fd: int, path: Path) -> bool:
    try:
        return os.fstat(fd).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


_ours = Publisher({})
_at_fork: dict[Key, float] = {}
_reading = threading.Lock()


def join(folder: Path, trouble: Trouble) -> None:
    """Have this process publish its numbers in *folder*; *trouble* adds to them.

    A process that has joined in one folder stays there: each is counted once.
    """
    _ours.join(folder, trouble)


def leave(trouble: Trouble) -> None:
    """Publish for the last time, as far as the owner of *trouble* is concerned."""
    _ours.leave(trouble)


def publish() -> None:
    """Write a snapshot if it is time for one; costs nothing otherwise."""
    _ours.publish()


def _remember() -> None:
    global _at_fork  # noqa: PLW0603
    # Asked before the fork, and nobody else asks meanwhile: in the child, a thread
    # that is gone would go on holding the lock of a number.
    _reading.acquire()
    _at_fork = dict(readings())


def _start_afresh() -> None:
    """Begin at zero in a forked child: what was counted before is the parent's."""
    global _ours  # noqa: PLW0603
    _reading.release()
    _ours.let_go()
    _ours = Publisher(_at_fork)


os.register_at_fork(
    before=_remember, after_in_parent=_reading.release, after_in_child=_start_afresh
)
