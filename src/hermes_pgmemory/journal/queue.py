"""One slot as a queue: append, pending, acknowledge, bury, sync."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from hermes_pgmemory.errors import JournalUnavailable
from hermes_pgmemory.journal.slots import (
    Explained,
    lock_path,
    next_slot,
    open_slot,
    peek,
    slots_of,
    try_lock,
    unlock,
)

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS writes (
    position INTEGER PRIMARY KEY,
    epoch TEXT NOT NULL,
    accepted_at REAL NOT NULL,
    record TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS dead_letters (
    position INTEGER PRIMARY KEY,
    epoch TEXT NOT NULL,
    accepted_at REAL NOT NULL,
    record TEXT NOT NULL,
    reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS pulse (beat INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS outage (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    since REAL NOT NULL,
    reason TEXT NOT NULL
);
"""
_COLUMNS: Final = "INSERT INTO writes (position, epoch, accepted_at, record) VALUES "
_APPEND: Final = _COLUMNS + "(?, ?, ?, ?)"
_LAST: Final = """
SELECT max(
    (SELECT coalesce(max(position), 0) FROM writes),
    (SELECT coalesce(max(position), 0) FROM dead_letters)
)
"""
_APPEND_TWO: Final = _COLUMNS + "(?, ?, ?, ?), (?, ?, ?, ?)"
"""An exchange: one statement costs less than a transaction of two."""
_PENDING: Final = "SELECT position, epoch, record FROM writes ORDER BY position LIMIT ?"
_ACKNOWLEDGE: Final = "DELETE FROM writes WHERE position <= ?"
_BURY: Final = """
INSERT OR REPLACE INTO dead_letters (position, epoch, accepted_at, record, reason)
SELECT position, epoch, accepted_at, record, ? FROM writes WHERE position = ?
"""
_DROP: Final = "DELETE FROM writes WHERE position = ?"
_SIZE: Final = "SELECT count(*), coalesce(sum(length(record)), 0) FROM writes"
_DEAD: Final = "SELECT count(*) FROM dead_letters"
_OUTAGE: Final = "INSERT OR REPLACE INTO outage VALUES (1, ?, ?)"
_NO_OUTAGE: Final = "DELETE FROM outage"
_CHECKPOINT: Final = "PRAGMA wal_checkpoint(PASSIVE)"
_START_OVER: Final = "PRAGMA wal_checkpoint(RESTART)"
_PULSE: Final = "INSERT OR REPLACE INTO pulse VALUES (1)"
_LONG_WAL_PAGES: Final = 4096
"""16 MB of log at SQLite's page size of 4 kB."""

_parked: list[tuple[sqlite3.Connection, sqlite3.Connection]] = []
"""Connections of a parent process: the garbage collector would close them."""


@dataclass(frozen=True, slots=True)
class Record:
    """One accepted write as it lies in the journal."""

    position: int
    epoch: str
    text: str


class Journal:
    """One claimed slot. Thread-safe; for one process (see `abandon` for forks)."""

    def __init__(self, slot: Path, lock: int, *, quota_bytes: int) -> None:
        """Open the claimed *slot*, whose lock is held by descriptor *lock*."""
        self.epoch = str(uuid4())
        """Names this process run in the database; see `models.Accepted`."""
        self._slot = slot
        self._folder = slot.parent
        self._lock_fd = lock
        self._quota = quota_bytes
        self._mutex = threading.Lock()
        self._dirty = False
        with Explained("open", slot.parent):
            self._hook = open_slot(slot)
            self._hook.executescript(_SCHEMA)
            self._keeper = open_slot(slot)
            self._count, self._bytes = self._hook.execute(_SIZE).fetchone()
            # Counted here, not by AUTOINCREMENT, which keeps its count in a second
            # page: half of what an append costs.
            (self._last,) = self._hook.execute(_LAST).fetchone()

    @classmethod
    def claim(cls, folder: Path, *, quota_bytes: int) -> Journal:
        """Take a slot of this process's own, which holds nothing yet.

        What earlier processes left stays with them, in the order in which they
        started (see `adoption`): one slot could hold the older writes of one theme
        and the newer ones of another, and no order would do for both.

        Raises:
            JournalUnavailable: *folder* cannot be made or written.
        """
        with Explained("open", folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Only the last one, lest our writes come before those of another.
            for slot in slots_of(folder)[-1:]:
                if _is_empty(slot) and (lock := try_lock(slot)) is not None:
                    journal = cls(slot, lock, quota_bytes=quota_bytes)
                    if not journal.depth:
                        journal.note_outage(None)  # of the slot's last owner
                        return journal
                    journal.close()
            slot = next_slot(folder)
            lock = try_lock(slot)
            if lock is None:  # a name nobody else can know
                raise JournalUnavailable(f"cannot lock a new journal in {folder}")
            return cls(slot, lock, quota_bytes=quota_bytes)

    def append(self, texts: Sequence[str]) -> None:
        """Accept writes: all of *texts*, or none.

        Raises:
            JournalUnavailable: Nothing was accepted: the quota is reached, or the
                disk does not take it.
        """
        size = sum(map(len, texts))
        now = time.time()
        with self._mutex:
            if self._bytes + size > self._quota:
                raise JournalUnavailable(
                    f"the journal holds {self._count} writes and its quota "
                    f"({self._quota >> 20} MB): raise plugins.pgvector."
                    "journal_quota_mb, or bring the database back"
                )
            rows = [
                (position, self.epoch, now, text)
                for position, text in enumerate(texts, self._last + 1)
            ]
            with Explained("write", self._folder):
                self._insert(rows)
            self._last += len(rows)
            self._count += len(rows)
            self._bytes += size
            self._dirty = True

    def _insert(self, rows: Sequence[tuple[int, str, float, str]]) -> None:
        match rows:
            case [row]:
                self._hook.execute(_APPEND, row)
            case [question, answer]:
                self._hook.execute(_APPEND_TWO, question + answer)
            case _:
                with self._transaction():
                    self._hook.executemany(_APPEND, rows)

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._hook.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._hook.execute("COMMIT")
        finally:
            if self._hook.in_transaction:
                self._hook.execute("ROLLBACK")

    def pending(self, limit: int) -> list[Record]:
        """Return up to *limit* writes not yet acknowledged, oldest first."""
        with self._mutex, Explained("read", self._folder):
            rows = self._hook.execute(_PENDING, (limit,)).fetchall()
            if len(rows) < limit:
                # All there are; some may have been erased from outside.
                self._count = len(rows)
                self._bytes = sum(len(text) for _, _, text in rows)
        return [Record(*row) for row in rows]

    def acknowledge(self, records: Iterable[Record]) -> None:
        """Forget *records*, which must be the oldest ones: they are stored."""
        done = list(records)
        if not done:
            return
        with self._mutex, Explained("write", self._folder):
            cursor = self._hook.execute(_ACKNOWLEDGE, (done[-1].position,))
            self._dirty = True
            if cursor.rowcount == len(done):
                self._count -= len(done)
                self._bytes -= sum(len(record.text) for record in done)
            else:  # some were buried, and are counted no more
                self._count, self._bytes = self._hook.execute(_SIZE).fetchone()

    def bury(self, record: Record, reason: str) -> None:
        """Move one write the database will never take to the dead letters."""
        with self._mutex, Explained("write", self._folder):
            with self._transaction():
                self._hook.execute(_BURY, (reason, record.position))
                dropped = self._hook.execute(_DROP, (record.position,)).rowcount
            self._count -= dropped
            self._bytes -= dropped * len(record.text)
            self._dirty = True

    def note_outage(self, since: float | None, reason: str = "") -> None:
        """Note for `inspect` since when, and why, nothing is stored; None: it is.

        Raises:
            JournalUnavailable: The disk does not take the note.
        """
        with self._mutex, Explained("write", self._folder):
            if since is None:
                self._hook.execute(_NO_OUTAGE)
            else:
                self._hook.execute(_OUTAGE, (since, reason))
            self._dirty = True

    def sync(self) -> None:
        """Put everything appended so far on the disk.

        Raises:
            JournalUnavailable: The disk refuses; what is accepted stays accepted
                in memory of the kernel, and the next `sync` tries again.
        """
        if not self._dirty:
            return
        if not self._slot.exists():
            raise JournalUnavailable(
                f"{self._folder} was deleted under this process: {self._count} "
                "accepted writes live in it alone until the database takes them"
            )
        self._dirty = False
        try:
            with Explained("sync", self._folder):
                busy, pages, done = self._keeper.execute(_CHECKPOINT).fetchone()
                self._dirty = self._dirty or bool(busy)
                if pages == done:
                    # The next write starts the log over, and that one waits for the
                    # disk. It must not be a hook's.
                    self._keeper.execute(_PULSE)
                elif pages > _LONG_WAL_PAGES:
                    # Under unbroken load the log never starts over by itself: some
                    # writer is always past the checkpoint. Holding the writers
                    # back is short now, most of the log is checkpointed.
                    with self._mutex:
                        self._keeper.execute(_START_OVER).fetchall()
        except JournalUnavailable:
            self._dirty = True
            raise

    @property
    def depth(self) -> int:
        """How many accepted writes wait to be stored."""
        return self._count

    def close(self) -> None:
        """Sync and give the slot back; what is pending waits for the next owner."""
        with self._mutex:
            self._keeper.close()
            self._hook.close()
            unlock(self._lock_fd)

    def retire(self) -> None:
        """Close an emptied slot and remove its files."""
        with self._mutex:
            self._keeper.close()
            self._hook.close()
            for suffix in ("", "-wal", "-shm"):
                self._slot.with_name(self._slot.name + suffix).unlink(missing_ok=True)
            lock_path(self._slot).unlink(missing_ok=True)
            unlock(self._lock_fd)

    def abandon(self) -> None:
        """Let go of the slot in a forked child: it belongs to the parent.

        The connections are neither used nor closed: SQLite forbids the first, and
        the second could checkpoint under the parent's feet.
        """
        _parked.append((self._hook, self._keeper))
        with suppress(OSError):
            os.close(self._lock_fd)

    @property
    def has_dead_letters(self) -> bool:
        """Whether any write was buried in this slot."""
        with self._mutex, Explained("read", self._folder):
            return bool(self._hook.execute(_DEAD).fetchone()[0])


def _is_empty(slot: Path) -> bool:
    """Look without locking: a slot that holds writes must stay free to be adopted."""
    try:
        with closing(peek(slot)) as connection:
            return connection.execute(_SIZE).fetchone()[0] == 0
    except sqlite3.Error:
        return False
