"""Delete what is old, or too much: by age, by size, by theme.

Turns go by age and by number, oldest first. Entries that are in use never go; retired
ones, which no file holds, and what entries said before go by age alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.maintenance.runs import (
    PART_TIMEOUT_S,
    READ_TIMEOUT_S,
    Advance,
    Outcome,
    Run,
    themes_of,
)
from hermes_pgmemory.maintenance.themes import label
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.maintenance import Aged
from hermes_pgmemory.store.steps import Place

MAX_DAYS: Final = 36_500
MAX_ROWS: Final = 1_000_000_000

_TABLES: Final[Mapping[Aged, str]] = {
    Aged.TURNS: "conversations",
    Aged.RETIRED: "memory_entries",
    Aged.HISTORY: "memory_entry_history",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What goes; None lets everything stay."""

    turns_before: datetime | None = None
    max_turns: int | None = None
    """Turns that a theme keeps, those said last."""
    retired_before: datetime | None = None
    history_before: datetime | None = None


def cutoff(days: int, now: datetime, *, option: str = "--days") -> datetime:
    """Return the instant *days* times 24 hours before *now*, in UTC.

    Raises:
        BadRequest: *days* is out of range; it names the *option*.
    """
    if not 1 <= days <= MAX_DAYS:
        raise BadRequest(f"{option} must be from 1 to {MAX_DAYS}")
    return now.astimezone(UTC) - timedelta(days=days)


def prune(
    store: Store,
    *,
    before: datetime | None = None,
    limits: Limits | None = None,
    theme: str | None,
    execute: bool,
    advance: Advance,
) -> Outcome:
    """Delete what is beyond *limits*; *before* alone is that of turns."""
    wanted = limits or Limits(turns_before=before)
    run = Run(
        store,
        "prune",
        pattern=theme and label(theme),
        execute=execute,
        advance=advance,
    )
    if wanted.turns_before is not None or wanted.max_turns is not None:
        _prune(run, store, Aged.TURNS, wanted, theme)
    if wanted.retired_before is not None:
        _prune(run, store, Aged.RETIRED, wanted, theme)
    if wanted.history_before is not None and store.maintenance.history.exists(
        before=wanted.history_before, theme=theme, timeout_s=READ_TIMEOUT_S
    ):
        _prune(run, store, Aged.HISTORY, wanted, theme)
    return run.close()


def _prune(
    run: Run, store: Store, aged: Aged, limits: Limits, theme: str | None
) -> None:
    table = _TABLES[aged]
    ages = {
        Aged.TURNS: limits.turns_before,
        Aged.RETIRED: limits.retired_before,
        Aged.HISTORY: limits.history_before,
    }
    before = ages[aged]
    told = {"before": before and before.isoformat()}
    if aged is Aged.TURNS and limits.max_turns is not None:
        told["max_rows"] = str(limits.max_turns)
    line = run.open(table, **{name: value for name, value in told.items() if value})
    for name in themes_of(store, theme):
        bound = Place(at=before) if before else None
        if aged is Aged.TURNS and limits.max_turns is not None:
            bound = _later(bound, _beyond(store, name, limits.max_turns))
        if bound is None:
            continue
        part = partial(
            store.maintenance.prune,
            name,
            aged=aged,
            before=bound,
            run=line,
            timeout_s=PART_TIMEOUT_S,
        )
        run.do(table, part)


def _beyond(store: Store, theme: str, rows: int) -> Place | None:
    return store.maintenance.newest_turns(theme, rows=rows, timeout_s=READ_TIMEOUT_S)


def _later(one: Place | None, other: Place | None) -> Place | None:
    """Return the later bound: what is before either goes."""
    bounds = [(place.at, place.id, place) for place in (one, other) if place]
    return max(bounds)[2] if bounds else None
