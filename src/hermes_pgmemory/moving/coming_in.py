"""Keep what is new of what a reader yields; tell what became of the rest.

Rows go in batches, each a transaction of its own. What was kept stays kept, and
running again passes over it: whether a row is there is asked of the rows themselves.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hermes_pgmemory.errors import UnstorableWrite
from hermes_pgmemory.maintenance import Advance, label
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.moving.values import Item, Skipped, kind_of
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.arriving import identity_of
from hermes_pgmemory.store.moved import Moved, MovedEntry, MovedTurn

BATCH_ROWS: Final = 500
BATCH_CHARS: Final = 4_000_000
TIMEOUT_S: Final = 60.0

FORGOTTEN: Final = "`forget` has deleted it here"

_TABLES: Final = {
    "entries": "memory_entries",
    "turns": "conversations",
    "delegations": "memory_agent_edges",
    "agents": "memory_agents",
}


@dataclass(slots=True)
class Tally:
    """What became of the rows of one kind and theme."""

    new: int = 0
    there: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])
    """By reason."""


@dataclass(slots=True)
class Report:
    """What a run did, or a rehearsal would have done."""

    executed: bool
    tallies: dict[tuple[str, str], Tally] = field(
        default_factory=dict[tuple[str, str], Tally]
    )
    """By theme, and kind: entries, turns, delegations or agents."""

    def tally(self, theme: str, kind: str) -> Tally:
        """Return the place to count in."""
        return self.tallies.setdefault((theme, kind), Tally())

    @property
    def new(self) -> int:
        """Rows of all kinds and themes that were kept."""
        return sum(tally.new for tally in self.tallies.values())

    @property
    def there(self) -> int:
        """Rows that were there already."""
        return sum(tally.there for tally in self.tallies.values())

    @property
    def skipped(self) -> Counter[str]:
        """Rows that were left out, by reason."""
        return sum((t.skipped for t in self.tallies.values()), Counter[str]())


class Arrival:
    """One import."""

    def __init__(
        self,
        store: Store,
        *,
        source: str,
        execute: bool,
        advance: Advance,
        model: EmbeddingModel | None = None,
        repeats: bool = True,
    ) -> None:
        """Begin.

        Args:
            store: Where to.
            source: What the log calls it.
            execute: Whether to keep anything.
            advance: Told how many more rows were looked at.
            model: The database's own; vectors of another length are left out.
            repeats: Whether the source may say one thing several times.
        """
        self._store = store
        self._source = source
        self._execute = execute
        self._advance = advance
        self._model = model
        self._repeats = repeats
        self._seen: set[object] = set()
        self._runs: dict[str, int] = {}
        self._started = time.monotonic()

    def run(self, items: Iterable[Item]) -> Report:
        """Go through *items*; return what became of them."""
        report = Report(executed=self._execute)
        for batch in _batches(items):
            rows: list[Moved] = []
            for item in batch:
                if isinstance(item, Skipped):
                    report.tally(item.theme, item.kind).skipped[item.why] += 1
                else:
                    rows.append(self._fitting(item))
            self._take(rows, report)
            self._advance(len(batch))
        for run in self._runs.values():
            seconds = round(time.monotonic() - self._started, 1)
            self._store.maintenance.add_to_run(
                run, details={"finished": True, "seconds": seconds}, timeout_s=TIMEOUT_S
            )
        return report

    def _take(self, rows: Sequence[Moved], report: Report) -> None:
        """Keep *rows*; halve them around one that the database refuses."""
        if not rows:
            return
        try:
            gone = self._store.moving.forgotten(rows, timeout_s=TIMEOUT_S)
            for place in gone:
                report.tally(*_place(rows[place])).skipped[FORGOTTEN] += 1
            rows = [row for place, row in enumerate(rows) if place not in gone]
            there = self._keep(rows) if self._execute else self._look(rows)
        except UnstorableWrite as exc:
            if len(rows) == 1:
                theme, kind = _place(rows[0])
                report.tally(theme, kind).skipped[f"refused: {exc}"] += 1
                return
            half = len(rows) // 2
            self._take(rows[:half], report)
            self._take(rows[half:], report)
            return
        for place, row in enumerate(rows):
            tally = report.tally(*_place(row))
            if place in there:
                tally.there += 1
            else:
                tally.new += 1

    def _look(self, rows: Sequence[Moved]) -> set[int]:
        """Return what a real run would find there, after what came before."""
        there = self._store.moving.there(rows, timeout_s=TIMEOUT_S)
        if self._repeats:
            said = [identity_of(row) for row in rows]
            there |= {place for place, one in enumerate(said) if one in self._seen}
            self._seen.update(said)
        return there

    def _keep(self, rows: Sequence[Moved]) -> set[int]:
        tables = {_TABLES[kind_of(row)] for row in rows}
        return self._store.moving.keep(
            rows,
            runs=self._lines(tables),
            model=self._model and self._model.name,
            timeout_s=TIMEOUT_S,
        )

    def _lines(self, tables: Iterable[str]) -> Mapping[str, int]:
        """Return the lines of the log for *tables*, opened at need."""
        for table in sorted(set(tables) - self._runs.keys()):
            self._runs[table] = self._store.maintenance.open_run(
                "import",
                table,
                pattern=None,
                details={"source": self._source},
                timeout_s=TIMEOUT_S,
            )
        return {table: self._runs[table] for table in tables}

    def _fitting(self, row: Moved) -> Moved:
        """Return *row* without a vector that this database has no place for."""
        if not isinstance(row, MovedEntry | MovedTurn) or row.vector is None:
            return row
        if self._model and len(row.vector) == self._model.dimension:
            return row
        return replace(row, vector=None)


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    chars = 0
    for item in items:
        batch.append(item)
        if isinstance(item, MovedEntry | MovedTurn):
            chars += len(item.write.content)
        if len(batch) >= BATCH_ROWS or chars >= BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def _place(row: Moved) -> tuple[str, str]:
    return label(row.write.theme), kind_of(row)
