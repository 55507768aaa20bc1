"""Dead letters: writes the database refused, to be looked at and tried again.

They stay in the slot of the process that met them, also while it lives. Trying one
again needs no slot's lock: the database tells a letter that was stored already, so
two who try at once store it once.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid5

from hermes_pgmemory.errors import JournalUnavailable
from hermes_pgmemory.journal.queue import Record
from hermes_pgmemory.journal.slots import Explained, peek, slots_of

BUSY_S: Final = 10.0
"""Seconds to wait for a living owner's write to end."""

_LIST: Final = """
SELECT position, accepted_at, record, reason FROM dead_letters ORDER BY position
"""
_AFTER: Final = """
SELECT position, epoch, record FROM dead_letters
 WHERE position > ? ORDER BY position LIMIT ?
"""
_FORGET: Final = "DELETE FROM dead_letters WHERE position = ?"
_EXPLAIN: Final = "UPDATE dead_letters SET reason = ? WHERE position = ?"

log = logging.getLogger("hermes_pgmemory")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One write that the database refused."""

    slot: str
    position: int
    accepted_at: float
    """Unix time."""
    text: str
    """The record, as `codec` reads it."""
    reason: str


def dead_letters(folder: Path) -> list[DeadLetter]:
    """Return the dead letters of all slots of *folder*, oldest first.

    A slot that cannot be read is warned about and hides no other.
    """
    return [letter for slot in slots_of(folder) for letter in _letters(slot)]


def _letters(slot: Path) -> list[DeadLetter]:
    try:
        rows = _read(slot, _LIST)
    except JournalUnavailable as exc:
        log.warning("%s is left alone: %s", slot.name, exc)
        return []
    number = slot.name.partition("-")[0].lstrip("0")
    return [
        DeadLetter(
            slot=number, position=position, accepted_at=at, text=text, reason=reason
        )
        for position, at, text, reason in rows
    ]


class DeadLetters:
    """The dead letters of one slot as a queue that offers each of them once."""

    def __init__(self, slot: Path) -> None:
        """Start before the first one."""
        self._slot = slot
        self._passed = 0
        self._refused: set[int] = set()

    @classmethod
    def of(cls, folder: Path) -> list[DeadLetters]:
        """Return the queues of *folder*, those of earlier processes first."""
        return [cls(slot) for slot in slots_of(folder)]

    def pending(self, limit: int) -> list[Record]:
        """Return up to *limit* letters not offered yet, oldest first.

        Each has an epoch of its own: later writes of its process have long been
        stored, and in the epoch of those it would be taken for stored as well.

        Raises:
            JournalUnavailable: The slot cannot be read.
        """
        rows = _read(self._slot, _AFTER, self._passed, limit)
        return [
            Record(position, str(uuid5(UUID(epoch), f"dead letter {position}")), text)
            for position, epoch, text in rows
        ]

    def acknowledge(self, records: Iterable[Record]) -> None:
        """Forget *records*, but for those that were refused again."""
        done = list(records)
        stored = [(r.position,) for r in done if r.position not in self._refused]
        with changing(self._slot) as connection:
            connection.executemany(_FORGET, stored)
        self._passed = max((r.position for r in done), default=self._passed)

    def bury(self, record: Record, reason: str) -> None:
        """Keep *record*, which the database refuses again, with the newest reason."""
        self._refused.add(record.position)
        with changing(self._slot) as connection:
            connection.execute(_EXPLAIN, (reason, record.position))


def _read(slot: Path, query: str, *parameters: int) -> list[tuple[Any, ...]]:
    """Return rows of *slot*; none where its last letter is gone, and it as well."""
    with Explained("read", slot.parent):
        try:
            with closing(peek(slot, wait_s=BUSY_S)) as connection:
                return connection.execute(query, parameters).fetchall()
        except sqlite3.OperationalError:
            if slot.exists():
                raise
            return []


@contextmanager
def changing(slot: Path) -> Generator[sqlite3.Connection]:
    """Change a slot that may be a living process's, in one brief transaction."""
    opened = closing(peek(slot, mode="rw", wait_s=BUSY_S))
    with Explained("write", slot.parent), opened as connection:
        # Its owner's hooks wait for us; they must not wait for the disk.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        with connection:
            yield connection
