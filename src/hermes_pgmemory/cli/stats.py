"""Show what the database holds: themes, rows without vectors, sizes, last runs.

`unembedded` rows wait for `backfill`; `retired` entries are in no file any more and are
not recalled. Counts every row, which takes a while on a large database.

Example:
  hermes-pgvector stats --json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli import _database, _themes
from hermes_pgmemory.cli._result import Result, Table

if TYPE_CHECKING:
    from hermes_pgmemory.store.runlog import LoggedRun
    from hermes_pgmemory.store.stats import TableSize

RUNS: Final = 10
TIMEOUT_S: Final = 600.0


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `stats`."""
    parser.add_argument(
        "--runs",
        type=int,
        default=RUNS,
        metavar="N",
        help=f"how many maintenance runs to show (default: {RUNS})",
    )


def run(args: Namespace) -> Result:
    """Count everything and show it."""
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    if args.runs < 0:
        raise BadRequest("--runs must not be negative")
    with _database.opened(args, _database.settings_of(args)) as store:
        looked = store.maintenance
        themes = store.counts(timeout_s=TIMEOUT_S)
        sizes = looked.sizes(timeout_s=TIMEOUT_S)
        runs = looked.last_runs(limit=args.runs, timeout_s=TIMEOUT_S)
    return Result(
        data={
            **_themes.data(themes),
            "tables": [asdict(size) for size in sizes],
            "runs": [_plain(run) for run in runs],
        },
        tables=[_themes.table(themes), _sizes(sizes), _runs(runs)],
    )


def _plain(run: LoggedRun) -> dict[str, Any]:
    return asdict(run) | {"at": run.at.isoformat()}


def _sizes(sizes: Sequence[TableSize]) -> Table:
    rows = [(s.table, _size(s.total), _size(s.indexes)) for s in sizes]
    return Table(title="tables", head=("table", "size", "indexes"), rows=rows)


def _runs(runs: Sequence[LoggedRun]) -> Table:
    rows = [
        (
            _themes.minute(run.at),
            run.operation,
            run.table or "",
            run.pattern or "all themes",
            f"{run.affected}",
            f"{run.dropped}",
        )
        for run in runs
    ]
    head = ("started", "operation", "table", "about", "rows", "of them duplicates")
    return Table(title="last maintenance runs", head=head, rows=rows)


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB"
