"""What an operator does now and then: prune, tidy up, merge themes.

Long work goes in parts, each a transaction of its own that takes about half a second
at most, so that living agents never wait for longer. What was done stays done, and
running again goes on. A rehearsal runs the same statements and commits none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol

from hermes_pgmemory import identity
from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.maintenance.themes import is_governed, label, themes_to_remap
from hermes_pgmemory.models import Theme
from hermes_pgmemory.store import Store, Table
from hermes_pgmemory.store.maintenance import Done, Part, Place, Untidy

__all__ = [
    "Advance",
    "Count",
    "Outcome",
    "Pace",
    "cleanup",
    "cutoff",
    "in_parts",
    "is_governed",
    "label",
    "prune",
    "remap",
    "themes_to_remap",
]

PART_TIMEOUT_S: Final = 30.0
READ_TIMEOUT_S: Final = 600.0
"""For counting, and for finding what is superfluous in a whole theme."""

SMALLEST_PART: Final = 10
LARGEST_PART: Final = 5_000
QUICK_S: Final = 0.15
SLOW_S: Final = 0.5

MAX_DAYS: Final = 36_500

TABLES: Final[Mapping[Table, str]] = {
    Table.ENTRIES: "memory_entries",
    Table.TURNS: "conversations",
}
_REMAPPED: Final[Mapping[Part, str]] = {
    Part.ENTRIES: "memory_entries",
    Part.TURNS: "conversations",
    Part.AGENTS: "memory_agents",
    Part.EDGES: "memory_agent_edges",
    Part.EDGE_CHILDREN: "memory_agent_edges",
}


class Advance(Protocol):
    """Told how many more rows are done."""

    def __call__(self, rows: int, /) -> None:
        """Go on by *rows*."""
        ...


class _DoPart(Protocol):
    def __call__(self, *, after: Place, limit: int) -> Done: ...


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

    def do(self, table: str, part: _DoPart) -> None:
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


def in_parts(part: _DoPart) -> Iterator[Done]:
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


def cutoff(days: int, now: datetime) -> datetime:
    """Return the instant *days* times 24 hours before *now*, in UTC.

    Raises:
        BadRequest: *days* is out of range.
    """
    if not 1 <= days <= MAX_DAYS:
        raise BadRequest(f"--days must be from 1 to {MAX_DAYS}")
    return now.astimezone(UTC) - timedelta(days=days)


def prune(
    store: Store,
    *,
    before: datetime,
    theme: str | None,
    execute: bool,
    advance: Advance,
) -> Outcome:
    """Delete turns said before an instant; memory entries are never touched."""
    run = Run(
        store,
        "prune",
        pattern=theme and label(theme),
        execute=execute,
        advance=advance,
    )
    line = run.open("conversations", before=before.isoformat())
    for name in _themes(store, theme):
        part = partial(
            store.maintenance.prune,
            name,
            before=before,
            run=line,
            timeout_s=PART_TIMEOUT_S,
        )
        run.do("conversations", part)
    return run.close()


def cleanup(
    store: Store, *, theme: str | None, execute: bool, advance: Advance
) -> Outcome:
    """Delete blank rows, and rows that say nothing that another does not say."""
    run = Run(
        store,
        "cleanup",
        pattern=theme and label(theme),
        execute=execute,
        advance=advance,
    )
    themes = _themes(store, theme)
    for table, name in TABLES.items():
        line = run.open(name)
        for one in themes:
            rows = store.maintenance.untidy(table, theme=one, timeout_s=READ_TIMEOUT_S)
            run.do(name, partial(_tidy, store, table, one, rows, line))
    return run.close()


def _tidy(
    store: Store,
    table: Table,
    theme: str,
    rows: Sequence[Untidy],
    line: int | None,
    *,
    after: Place,
    limit: int,
) -> Done:
    """Do one part of rows that are known: the place is an index here."""
    chosen = rows[after.id : after.id + limit]
    if not chosen:
        return Done(seen=0, affected=0, dropped=0, reached=after)
    done = store.maintenance.tidy(
        table, theme, chosen, run=line, timeout_s=PART_TIMEOUT_S
    )
    return Done(
        seen=len(chosen),
        affected=done.affected,
        dropped=done.dropped,
        reached=Place(id=after.id + len(chosen)),
    )


def remap(
    store: Store, old: str, new: Theme, *, execute: bool, advance: Advance
) -> Outcome:
    """Merge theme *old* into *new*; `themes_to_remap` has checked both.

    Positions in journals stay: a journal names the theme that a write was accepted
    for, and would otherwise be applied a second time, to *old*.
    """
    run = Run(
        store,
        "remap",
        pattern=f"{label(old)} -> {new}",
        execute=execute,
        advance=advance,
    )
    for part, table in _REMAPPED.items():
        do_part = partial(
            store.maintenance.remap,
            part,
            old,
            new,
            kind=identity.kind_of(new).value,
            run=run.open(table),
            timeout_s=PART_TIMEOUT_S,
        )
        run.do(table, do_part)
    return run.close()


def _themes(store: Store, theme: str | None) -> Sequence[str]:
    if theme is not None:
        return [theme]
    return store.maintenance.themes(timeout_s=READ_TIMEOUT_S)
