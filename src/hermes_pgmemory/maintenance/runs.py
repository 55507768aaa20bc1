"""How long work is done: in parts, at a pace that is learned, each on record.

A part is one transaction of about half a second at most, so that living agents never
wait for longer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from hermes_pgmemory.store import Store
from hermes_pgmemory.store.steps import Done, Place

PART_TIMEOUT_S: Final = 30.0
READ_TIMEOUT_S: Final = 600.0
"""For counting, and for finding what is superfluous in a whole theme."""

SMALLEST_PART: Final = 10
LARGEST_PART: Final = 5_000
QUICK_S: Final = 0.15
SLOW_S: Final = 0.5


class Advance(Protocol):
    """Told how many more rows are done."""

    def __call__(self, rows: int, /) -> None:
        """Go on by *rows*."""
        ...


class DoPart(Protocol):
    """Does one part: up to *limit* rows behind *after*."""

    def __call__(self, *, after: Place, limit: int) -> Done:
        """Do it, and say how far it came."""
        ...


@dataclass(slots=True)
class Count:
    """What became of one table's rows."""

    affected: int = 0
    dropped: int = 0
    """Those of `affected` that were deleted as duplicates of a row that stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run did, or a rehearsal would have done, by table."""

    executed: bool
    tables: Mapping[str, Count] = field(default_factory=dict[str, Count])

    @property
    def affected(self) -> int:
        """Rows of all tables."""
        return sum(count.affected for count in self.tables.values())


class Pace:
    """How many rows the next part may take, learned from how long the last took."""

    def __init__(self, rows: int = 500) -> None:
        """Begin with *rows*."""
        self.rows = rows

    def took(self, seconds: float) -> None:
        """Adjust: quick parts grow, slow ones shrink."""
        if seconds > SLOW_S:
            self.rows = max(SMALLEST_PART, self.rows // 2)
        elif seconds < QUICK_S:
            self.rows = min(LARGEST_PART, self.rows * 2)


class Run:
    """One operation's counts, and its lines in the log where it is executed."""

    def __init__(
        self,
        store: Store,
        operation: str,
        *,
        pattern: str | None,
        execute: bool,
        advance: Advance,
    ) -> None:
        """Begin; *pattern* tells the log which themes it is about, None is all."""
        self.tables: dict[str, Count] = {}
        self._store = store
        self._operation = operation
        self._pattern = pattern
        self._execute = execute
        self._advance = advance
        self._lines: dict[str, int] = {}
        self._started = time.monotonic()

    def open(self, table: str, **details: Any) -> int | None:
        """Return the id of this table's line of the log; None in a rehearsal."""
        self.tables.setdefault(table, Count())
        if self._execute and table not in self._lines:
            self._lines[table] = self._store.maintenance.open_run(
                self._operation,
                table,
                pattern=self._pattern,
                details=details,
                timeout_s=PART_TIMEOUT_S,
            )
        return self._lines.get(table)

    def do(self, table: str, part: DoPart) -> None:
        """Do one part after the other until none is left."""
        count = self.tables[table]
        for done in in_parts(part):
            count.affected += done.affected
            count.dropped += done.dropped
            self._advance(done.affected)

    def close(self) -> Outcome:
        """Mark the lines as finished; one without the mark was interrupted."""
        seconds = round(time.monotonic() - self._started, 1)
        for line in self._lines.values():
            self._store.maintenance.add_to_run(
                line,
                details={"finished": True, "seconds": seconds},
                timeout_s=PART_TIMEOUT_S,
            )
        return Outcome(executed=self._execute, tables=self.tables)


def in_parts(part: DoPart) -> Iterator[Done]:
    """Do one part after the other until none is left, at a pace that is learned."""
    pace = Pace()
    after = Place()
    while True:
        limit = pace.rows
        started = time.monotonic()
        done = part(after=after, limit=limit)
        pace.took(time.monotonic() - started)
        yield done
        if done.seen < limit:
            return
        after = done.reached


def themes_of(store: Store, theme: str | None) -> Sequence[str]:
    """Return *theme* alone, or every theme that has rows."""
    if theme is not None:
        return [theme]
    return store.maintenance.themes(timeout_s=READ_TIMEOUT_S)
