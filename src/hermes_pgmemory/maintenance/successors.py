"""Sealed indexes over the vectors that a move to another model has made.

They are built before the move switches, so that no search has to do without: an index
serves one column, and the old one's go with it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hermes_pgmemory.maintenance import index
from hermes_pgmemory.maintenance.index import Act, Done, Step
from hermes_pgmemory.store import sealed
from hermes_pgmemory.store.indexing import NEXT, NEXT_SUFFIX, Index, Indexing
from hermes_pgmemory.store.upkeep import Table

MEMORY_MB = 1024
"""For one build at most; what the server grants anyway, if that is more."""
WORKERS = 1


def build(run: Indexing) -> list[Done]:
    """Give every sealed index that stands a successor over the next vectors.

    Where these are too long for an index there is none, and searches are exact.

    Raises:
        DatabaseUnavailable: It went away; running again goes on.
    """
    done: list[Done] = []
    known, begun = run.indexes(), run.indexes(NEXT)
    for column in run.columns(NEXT):
        mine = [one for one in known if one.table is column.table]
        ready = _ready(run, [one for one in begun if one.table is column.table])
        if not column.can_be_indexed:
            continue
        for step in _wanted(run, column.table, mine):
            if sealed.mark_of(step.theme) in ready:
                continue
            started = time.monotonic()
            used = run.resources(
                column, step.rows, memory_mb=MEMORY_MB, workers=WORKERS
            )
            run.build(
                column,
                step.name,
                theme=step.theme,
                watermark=step.watermark,
                resources=used,
                told=_untold,
            )
            took = time.monotonic() - started
            done.append(Done(step=step, seconds=took, resources=used))
    return done


def _ready(run: Indexing, begun: Sequence[Index]) -> set[str]:
    """Return the marks of successors that an earlier run completed; drop the rest."""
    ready: set[str] = set()
    for one in begun:
        parsed = sealed.parse_name(one.name.removesuffix(NEXT_SUFFIX))
        if one.valid and parsed:
            ready.add(parsed[0])
        else:
            run.drop(one.name)
    return ready


def _wanted(run: Indexing, table: Table, known: Sequence[Index]) -> list[Step]:
    standing, _ = index.standing(known)
    if not standing:
        return []
    return [
        Step(
            act=Act.BUILD,
            table=table,
            name=sealed.index_name(table, theme, last) + NEXT_SUFFIX,
            theme=theme,
            rows=rows,
            watermark=last,
        )
        for theme, rows, last in index.owners(run.themes(table))
        if sealed.mark_of(theme) in standing
    ]


def _untold(_: int) -> None:
    """Rows of an index are not rows of the move."""
