"""Keep the sealed indexes in step with the rows: build, move, drop.

A theme that is large has an index of its own; all themes together have one more, for
searches across the fleet. Each holds the rows up to a watermark, so that writing never
waits for it; when many rows have come since, another one takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.maintenance import Advance
from hermes_pgmemory.maintenance.themes import label
from hermes_pgmemory.store import indexing as store
from hermes_pgmemory.store import sealed
from hermes_pgmemory.store.indexing import Column, Filled, Index, Indexing, Resources
from hermes_pgmemory.store.upkeep import Table

WORTH_ROWS: Final = 2_000
WORTH_SHARE: Final = 0.1
"""`--auto` moves a watermark when so many rows, and such a part of all, are behind."""

opened = store.opened


class Act(StrEnum):
    """What is done with an index."""

    KEEP = "keep"
    BUILD = "build"
    MOVE = "move"
    """Build one with a later watermark, then drop the old one."""
    DROP = "drop"
    """Its theme has become small."""
    CLEAR = "clear"
    """It is of no use: an interrupted run left it."""


BUILDING: Final = (Act.BUILD, Act.MOVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One index, and what is to be done with it."""

    act: Act
    table: Table
    name: str
    theme: str | None = None
    """Whose rows; None are all themes', or of a theme that is gone."""
    rows: int = 0
    """With a vector, the tail included."""
    watermark: int = 0
    """The last id in the index; for `MOVE`, that it will have."""
    tail: int = 0
    """Vectors behind the watermark of the index that there is."""
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A step that was taken."""

    step: Step
    seconds: float
    resources: Resources | None = None
    """What a build used; None for other steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is to be done, and what cannot be."""

    steps: Sequence[Step]
    columns: Mapping[Table, Column]
    unfit: Sequence[Column] = field(default=())
    """Vectors too long to be indexed."""


def survey(run: Indexing, *, min_rows: int, auto: bool) -> Survey:
    """Look what is to be done. Reads every row's header, and changes nothing.

    Args:
        run: See `opened`.
        min_rows: Vectors from which on a theme gets an index, at least 1.
        auto: Leave watermarks alone until moving them is worth it.

    Raises:
        BadRequest: *min_rows* is out of range.
    """
    if min_rows < 1:
        raise BadRequest("--min-rows must be at least 1")
    columns = {column.table: column for column in run.columns()}
    known = run.indexes()
    steps: list[Step] = []
    for table, column in columns.items():
        mine = [index for index in known if index.table == table]
        if column.can_be_indexed:
            steps += _of_table(run, table, mine, min_rows=min_rows, auto=auto)
    unfit = [column for column in columns.values() if not column.can_be_indexed]
    return Survey(steps=steps, columns=columns, unfit=unfit)


def _of_table(
    run: Indexing, table: Table, known: Sequence[Index], *, min_rows: int, auto: bool
) -> list[Step]:
    left, steps = standing(known)
    for theme, rows, last in owners(run.themes(table)):
        old = left.pop(sealed.mark_of(theme), None)
        if old is not None or rows >= min_rows:
            whole = Step(
                act=Act.KEEP,
                table=table,
                name="",
                theme=theme,
                rows=rows,
                watermark=last,
            )
            steps.append(_step(run, whole, old, min_rows=min_rows, auto=auto))
    # What is left belongs to themes without a row.
    steps += [
        Step(act=Act.DROP, table=table, name=index.name) for index in left.values()
    ]
    return steps


def standing(known: Sequence[Index]) -> tuple[dict[str, Index], list[Step]]:
    """Return the index that serves each mark, and how to clear the others away."""
    serving: dict[str, Index] = {}
    marks: dict[str, int] = {}
    useless: list[Index] = []
    for index in known:
        parsed = sealed.parse_name(index.name)
        if parsed is None or not index.valid:
            useless += [] if index.valid else [index]
            continue
        mark, watermark = parsed
        if mark in serving:
            # A run was cut off between building the one and dropping the other.
            later = watermark > marks[mark]
            useless.append(serving[mark] if later else index)
            if not later:
                continue
        serving[mark], marks[mark] = index, watermark
    return serving, [
        Step(act=Act.CLEAR, table=index.table, name=index.name) for index in useless
    ]


def owners(filled: Sequence[Filled]) -> list[tuple[str | None, int, int]]:
    """Return whose rows an index may hold, all themes' first, how many, and the last.

    None in place of a theme are all.
    """
    rows = sum(one.rows for one in filled)
    last = max((one.last_id for one in filled), default=0)
    return [(None, rows, last), *((one.theme, one.rows, one.last_id) for one in filled)]


def _step(
    run: Indexing, whole: Step, old: Index | None, *, min_rows: int, auto: bool
) -> Step:
    """Decide about one index; *whole* is what it would be if built now."""
    table, theme, rows = whole.table, whole.theme, whole.rows
    new = sealed.index_name(table, theme, whole.watermark)
    if old is None:
        return replace(whole, act=Act.BUILD, name=new, tail=rows)
    # So that a theme on the edge is not built and dropped in turn.
    if rows * 2 < min_rows:
        return replace(whole, act=Act.DROP, name=old.name)
    watermark = (sealed.parse_name(old.name) or ("", 0))[1]
    tail = run.tail(table, theme, watermark)
    worth = max(WORTH_ROWS, rows * WORTH_SHARE) if auto else 1
    if tail < worth:
        return replace(whole, name=old.name, watermark=watermark, tail=tail)
    return replace(whole, act=Act.MOVE, name=new, tail=tail, replaces=old.name)


def carry_out(
    run: Indexing,
    found: Survey,
    *,
    drop: bool,
    memory_mb: int,
    workers: int,
    advance: Advance,
) -> list[Done]:
    """Take the steps, one after the other; what is done stays done.

    Args:
        run: That of *found*.
        found: See `survey`.
        drop: Also drop indexes of themes that have become small.
        memory_mb: What a build may use at most, in megabytes; at least 1. Never less
            than what the server gives such work anyway.
        workers: Processes beside the build's own, at least 0.
        advance: Told how many more rows are indexed.

    Raises:
        BadRequest: A number is out of range.
        DatabaseUnavailable: It went away; running again goes on.
    """
    if memory_mb < 1 or workers < 0:
        raise BadRequest("--memory-mb must be at least 1, and --workers at least 0")
    done: list[Done] = []
    # What is useless may bear a name that a build needs.
    for step in sorted(found.steps, key=lambda step: step.act is not Act.CLEAR):
        started = time.monotonic()
        used = None
        if step.act in BUILDING:
            column = found.columns[step.table]
            used = run.resources(
                column, step.rows, memory_mb=memory_mb, workers=workers
            )
            _build(run, step, column, used, advance)
        elif step.act is Act.CLEAR or (step.act is Act.DROP and drop):
            run.drop(step.name)
        else:
            continue
        done.append(Done(step=step, seconds=time.monotonic() - started, resources=used))
        _log(run, done[-1])
    return done


def _build(
    run: Indexing, step: Step, column: Column, used: Resources, advance: Advance
) -> None:
    reached = 0

    def told(rows: int) -> None:
        nonlocal reached
        if reached < rows <= step.rows:
            advance(rows - reached)
            reached = rows

    run.build(
        column,
        step.name,
        theme=step.theme,
        watermark=step.watermark,
        resources=used,
        told=told,
    )
    told(step.rows)
    if step.replaces:
        run.drop(step.replaces)


def _log(run: Indexing, done: Done) -> None:
    step = done.step
    run.log(
        step.table,
        step.theme and label(step.theme),
        step.rows,
        act=step.act.value,
        name=step.name,
        seconds=round(done.seconds, 1),
    )
