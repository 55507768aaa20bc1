"""Erasing what a journal holds, and held: also beside the process that writes to it.

A deleted record stays in its file until the place is used again. So what is erased
here is overwritten, and so is everything that was stored and acknowledged before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, Literal, get_args

from hermes_pgmemory.journal.letters import BUSY_S, changing
from hermes_pgmemory.journal.slots import Explained, peek, slots_of, try_lock, unlock

Kind = Literal["writes", "dead_letters"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
PAGE: Final = 500
LARGEST: Final = 64 << 20
"""Bytes of a slot that can be written anew so quickly that no hook is refused."""

_READ: Final[dict[Kind, str]] = {
    "writes": "SELECT position, record FROM writes"
    " WHERE position > ? ORDER BY position LIMIT ?",
    "dead_letters": "SELECT position, record FROM dead_letters"
    " WHERE position > ? ORDER BY position LIMIT ?",
}
_ERASE: Final[dict[Kind, str]] = {
    "writes": "DELETE FROM writes WHERE position = ?",
    "dead_letters": "DELETE FROM dead_letters WHERE position = ?",
}


def erasable(folder: Path) -> list[Slot]:
    """Return the slots of *folder*, those of living processes too."""
    return [Slot(path) for path in slots_of(folder)]


class Slot:
    """One file of the journal; it may be retired by its owner at any time.

    Every method may raise `JournalUnavailable`.
    """

    def __init__(self, path: Path) -> None:
        """Name the slot at *path*; nothing is opened."""
        self.path = path

    def texts(self, kind: Kind) -> Iterator[str]:
        """Yield what waits, or was refused, in order of acceptance."""
        for _, text in self._records(kind):
            yield text

    def erase(self, owned: Callable[[str], bool]) -> dict[Kind, int]:
        """Delete the records that are *owned*; return how many of each kind."""
        counts: dict[Kind, int] = dict.fromkeys(KINDS, 0)
        for kind in KINDS:
            found = [(place,) for place, text in self._records(kind) if owned(text)]
            if not found:
                continue
            with changing(self.path) as connection:
                connection.execute("PRAGMA secure_delete = ON")
                done = connection.executemany(_ERASE[kind], found)
                counts[kind] = done.rowcount
        return counts

    def scrub(self) -> bool:
        """Write the file anew, so that it holds nothing that was ever deleted.

        False, and nothing done, where so much waits in it that its owner's hooks would
        be refused meanwhile: once that is stored, it can be done.
        """
        with Explained("write", self.path.parent):
            if not self.path.exists():
                return True
            if self.path.stat().st_size > LARGEST and self._is_in_use():
                return False
            try:
                with closing(peek(self.path, mode="rw", wait_s=BUSY_S)) as connection:
                    connection.isolation_level = None
                    return _write_anew(connection)
            except sqlite3.OperationalError:
                if self.path.exists():
                    raise
                return True

    def raw(self) -> Iterator[bytes]:
        """Yield the bytes of the slot's files, as they lie on the disk."""
        for suffix in ("", "-wal"):
            path = self.path.with_name(self.path.name + suffix)
            try:
                yield path.read_bytes()
            except FileNotFoundError:
                continue

    def _records(self, kind: Kind) -> Iterator[tuple[int, str]]:
        after, page = -1, [(0, "")]
        while page:
            page = self._page(kind, after)
            yield from page
            after = page[-1][0] if page else after

    def _page(self, kind: Kind, after: int) -> list[tuple[int, str]]:
        with Explained("read", self.path.parent):
            try:
                with closing(peek(self.path, wait_s=BUSY_S)) as connection:
                    return connection.execute(_READ[kind], (after, PAGE)).fetchall()
            except sqlite3.OperationalError:
                # A slot may be retired, or not have its tables yet.
                if self.path.exists() and self.path.stat().st_size:
                    raise
                return []

    def _is_in_use(self) -> bool:
        lock = try_lock(self.path)
        if lock is not None:
            unlock(lock)
        return lock is None


def _write_anew(connection: sqlite3.Connection) -> bool:
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("VACUUM")
    # Most of the way without holding back its owner's hooks.
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return not busy
