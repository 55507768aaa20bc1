"""What an operator does now and then: prune, tidy up, merge themes.

Long work goes in parts, each a transaction of its own that takes about half a second
at most, so that living agents never wait for longer. What was done stays done, and
running again goes on. A rehearsal runs the same statements and commits none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from hermes_pgmemory import identity
from hermes_pgmemory.maintenance.prune import cutoff, prune
from hermes_pgmemory.maintenance.runs import (
    LARGEST_PART,
    PART_TIMEOUT_S,
    READ_TIMEOUT_S,
    SMALLEST_PART,
    Advance,
    Count,
    Outcome,
    Pace,
    Run,
    in_parts,
    themes_of,
)
from hermes_pgmemory.maintenance.themes import is_governed, label, themes_to_remap
from hermes_pgmemory.models import Theme
from hermes_pgmemory.store import Store, Table
from hermes_pgmemory.store.maintenance import Part, Untidy
from hermes_pgmemory.store.steps import Done, Place
from hermes_pgmemory.store.upkeep import NAMES

__all__ = [
    "LARGEST_PART",
    "PART_TIMEOUT_S",
    "SMALLEST_PART",
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

POSITION_DAYS: Final = 365
"""How long the position of a journal is kept. A host that was off for longer, with
writes in its journal, applies the last batch before that once more."""

_REMAPPED: Final[Mapping[Part, str]] = {
    Part.ENTRIES: "memory_entries",
    Part.HISTORY: "memory_entry_history",
    Part.TURNS: "conversations",
    Part.AGENTS: "memory_agents",
    Part.EDGES: "memory_agent_edges",
    Part.EDGE_CHILDREN: "memory_agent_edges",
}


def cleanup(
    store: Store, *, theme: str | None, execute: bool, advance: Advance
) -> Outcome:
    """Delete blank rows, and rows that say nothing that another does not say.

    Where the role may, also the positions of journals that are long gone.
    """
    run = Run(
        store,
        "cleanup",
        pattern=theme and label(theme),
        execute=execute,
        advance=advance,
    )
    themes = themes_of(store, theme)
    for table, name in NAMES.items():
        line = run.open(name)
        for one in themes:
            rows = store.maintenance.untidy(table, theme=one, timeout_s=READ_TIMEOUT_S)
            run.do(name, partial(_tidy, store, table, one, rows, line))
    if store.maintenance.may_tidy_positions(timeout_s=PART_TIMEOUT_S):
        _tidy_positions(store, run, theme)
    return run.close()


def _tidy_positions(store: Store, run: Run, theme: str | None) -> None:
    line = run.open("memory_journal_positions")
    before = cutoff(POSITION_DAYS, datetime.now(UTC))

    def part(*, after: Place, limit: int) -> Done:  # noqa: ARG001 - all at once
        return store.maintenance.tidy_positions(
            theme, before=before, run=line, timeout_s=READ_TIMEOUT_S
        )

    run.do("memory_journal_positions", part)


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
    has_history = store.maintenance.history.exists(theme=old, timeout_s=READ_TIMEOUT_S)
    for part, table in _REMAPPED.items():
        if part is Part.HISTORY and not has_history:
            continue
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
