"""Build vector indexes for large themes and for the whole fleet, beside living agents.

A theme of many rows gets an HNSW index of its own, all themes together one more. Each
is sealed: it holds the rows up to a watermark, so that writing never waits for it, and
a search adds the rows behind, one by one. This builds what is missing, moves watermarks
by building anew, and clears away what an interrupted run left. Searches are right
whether or not this ever ran; on large themes they get slower without.

Locks nothing that agents need, but a build waits for every transaction that is open
when it starts. It needs the tables' owner, not through a pooler. An index of a theme
that has become small is only named, unless --drop-small or --auto drops it.

From cron, once a night or after a large import, --auto does what is worth it:

Examples:
  hermes-pgvector index --plan
  hermes-pgvector index
  hermes-pgvector index --auto --json
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hermes_pgmemory.cli import _database, _progress
from hermes_pgmemory.cli._result import Result, Table

if TYPE_CHECKING:
    from hermes_pgmemory.maintenance.index import Done, Step, Survey
    from hermes_pgmemory.store.indexing import Column

MIN_ROWS = 5_000
"""Searched exactly, so many vectors of 384 dimensions take some 20 ms."""
MEMORY_MB = 1_024
WORKERS = 2


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `index`."""
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--plan", action="store_true", help="only tell what would be done"
    )
    kind.add_argument(
        "--auto",
        action="store_true",
        help="for cron: move a watermark only when a tenth of the rows is behind it, "
        "and drop indexes of themes that have become small",
    )
    kind.add_argument(
        "--drop-small", action="store_true", help="drop indexes of small themes, too"
    )
    parser.add_argument(
        "--min-rows",
        type=int,
        default=MIN_ROWS,
        metavar="N",
        help=f"vectors from which on an index is worth it (default: {MIN_ROWS})",
    )
    parser.add_argument(
        "--memory-mb",
        type=int,
        default=MEMORY_MB,
        metavar="N",
        help="what one build may use on the server (maintenance_work_mem); less if it "
        f"needs less (default: {MEMORY_MB}, or the server's own setting if larger)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=WORKERS,
        metavar="N",
        help=f"further server processes that help one build (default: {WORKERS})",
    )
    parser.add_argument(
        "--admin-dsn",
        metavar="DSN",
        help="connect as the tables' owner instead; - reads it from standard input, "
        "where other users cannot see it",
    )


def run(args: Namespace) -> Result:
    """Bring all indexes in step with the rows, or tell what that takes."""
    from hermes_pgmemory.maintenance import index  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415

    settings = _database.settings_of(args)
    admin = sys.stdin.readline().strip() if args.admin_dsn == "-" else args.admin_dsn
    dsn = admin or _database.dsn_of(settings, HomePaths(args.home), start=True)
    with index.opened(dsn) as indexing:
        found = index.survey(indexing, min_rows=args.min_rows, auto=args.auto)
        building = [step for step in found.steps if step.act in index.BUILDING]
        total = sum(step.rows for step in building)
        done: list[Done] = []
        if not args.plan:
            with _progress.bar("index", total=total) as advance:
                done = index.carry_out(
                    indexing,
                    found,
                    drop=args.drop_small or args.auto,
                    memory_mb=args.memory_mb,
                    workers=args.workers,
                    advance=advance,
                )
    return _told(found, done, executed=not args.plan)


def _told(found: Survey, done: Sequence[Done], *, executed: bool) -> Result:
    from hermes_pgmemory.maintenance.index import Act  # noqa: PLC0415

    taken = {one.step.name: one for one in done}
    steps = [_as_data(step, taken.get(step.name)) for step in found.steps]
    due = sum(1 for step in steps if step["act"] != Act.KEEP and not step["done"])
    lines = [f"{len(done)} of {len(done) + due} steps done" if executed else ""]
    if due:
        lines.append(
            f"{due} indexes of small themes would be dropped; add --drop-small to do it"
            if executed
            else f"{due} steps to take; leave --plan out to take them"
        )
    lines += map(_why_unfit, found.unfit)
    return Result(
        data={
            "executed": executed,
            "steps": steps,
            "unfit": [
                {"table": _table(c), "type": c.kind, "dimension": c.dimension}
                for c in found.unfit
            ],
        },
        tables=[
            Table(
                title="sealed indexes",
                head=("table", "theme", "vectors", "behind", "step", "took"),
                rows=[_as_row(step) for step in steps],
            )
        ],
        text="\n".join(filter(None, lines)),
    )


def _as_data(step: Step, done: Done | None) -> dict[str, Any]:
    from hermes_pgmemory.maintenance import index, label  # noqa: PLC0415

    used = done and done.resources
    # A theme that has no row any more is known by its mark alone.
    gone = step.theme is None and step.act in (index.Act.DROP, index.Act.CLEAR)
    return {
        "table": _table(step),
        "scope": "gone" if gone else "all" if step.theme is None else "theme",
        "theme": step.theme and label(step.theme),
        "act": step.act.value,
        "index": step.name,
        "rows": step.rows,
        "watermark": step.watermark,
        "tail": step.tail,
        "done": done is not None,
        "seconds": done and round(done.seconds, 1),
        "memory_mb": used and used.memory_kb // 1024,
        "workers": used and used.workers,
    }


def _as_row(step: dict[str, Any]) -> tuple[str, ...]:
    theme = step["theme"] or {"all": "(all)"}.get(step["scope"], "(none)")
    took = f"{step['seconds']} s" if step["done"] else ""
    if step["memory_mb"]:
        took += f", up to {step['memory_mb']} MB, {step['workers']} workers"
    rows, tail = f"{step['rows']}", f"{step['tail']}"
    return (step["table"], theme, rows, tail, step["act"], took)


def _table(of: Step | Column) -> str:
    from hermes_pgmemory.store.upkeep import NAMES  # noqa: PLC0415

    return NAMES[of.table]


def _why_unfit(column: Column) -> str:
    from hermes_pgmemory.store.indexing import LIMITS  # noqa: PLC0415

    advice = (
        "run `hermes-pgvector convert --execute` first, or leave it: searches are exact"
        if column.kind == "vector" and column.dimension <= LIMITS["halfvec"]
        else "searches stay exact"
    )
    return (
        f"{_table(column)}: no index can hold vectors of {column.dimension:,} "
        f"dimensions ({column.kind}: {LIMITS[column.kind]:,} at most); {advice}"
    )
