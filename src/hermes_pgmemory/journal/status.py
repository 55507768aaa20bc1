"""What a journal's folder holds, seen from outside."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes_pgmemory.journal.slots import peek, slots_of

_WAITS: Final = "SELECT EXISTS (SELECT 1 FROM writes WHERE substr(record, 1, ?) = ?)"
_LOOK: Final = """
SELECT (SELECT count(*) FROM writes),
       (SELECT min(accepted_at) FROM writes),
       (SELECT count(*) FROM dead_letters)
"""
_OUTAGE: Final = "SELECT since, reason FROM outage"

_Outage = tuple[float, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStatus:
    """All slots of one folder together."""

    slots: int
    pending: int
    oldest_age_s: float | None
    dead_letters: int
    bytes: int
    outage_since: float | None = None
    """Unix time since which what is pending is not stored; None where it is."""
    outage_reason: str | None = None


def inspect(folder: Path) -> JournalStatus:
    """Add up all slots of *folder*, without claiming or changing any."""
    slots = slots_of(folder)
    looks = [look for slot in slots if (look := _look(slot)) is not None]
    outages = [look[3] for look in looks if look[3] is not None and look[0]]
    since, reason = min(outages, default=(None, None))
    accepted = [first for _, first, _, _ in looks if first is not None]
    return JournalStatus(
        slots=len(slots),
        pending=sum(pending for pending, _, _, _ in looks),
        oldest_age_s=max(0.0, time.time() - min(accepted)) if accepted else None,
        dead_letters=sum(dead for _, _, dead, _ in looks),
        bytes=sum(_size(slot) for slot in slots),
        outage_since=since,
        outage_reason=reason,
    )


def waiting(folder: Path, beginnings: Sequence[str]) -> bool:
    """Tell whether a write whose text begins like one of these waits in any slot.

    Writes of this and of other processes, living or dead. A slot that is busy at this
    moment counts as one that holds such a write, a damaged one as empty.
    """
    return any(_waits(slot, beginnings) for slot in slots_of(folder))


def _waits(slot: Path, beginnings: Sequence[str]) -> bool:
    try:
        with closing(peek(slot)) as connection:
            return any(
                connection.execute(_WAITS, (len(text), text)).fetchone()[0]
                for text in beginnings
            )
    except sqlite3.Error as exc:
        code = getattr(exc, "sqlite_errorcode", None)
        return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _look(slot: Path) -> tuple[int, float | None, int, _Outage] | None:
    """Read one slot; None if it goes away or is not readable at this moment."""
    try:
        with closing(peek(slot)) as connection:
            pending, first, dead = connection.execute(_LOOK).fetchone()
            return pending, first, dead, _outage(connection)
    except sqlite3.Error:
        return None


def _outage(connection: sqlite3.Connection) -> _Outage:
    try:
        return connection.execute(_OUTAGE).fetchone()
    except sqlite3.OperationalError:  # an earlier version's slot has no such table
        return None


def _size(slot: Path) -> int:
    sizes = 0
    for suffix in ("", "-wal", "-shm"):
        try:
            sizes += slot.with_name(slot.name + suffix).stat().st_size
        except FileNotFoundError:
            continue
    return sizes
