"""Put a backup of `hermes-pgvector backup` into a database.

Without --execute it only looks at the file and at the database. A database that holds
memories is refused, unless --replace names it: all of them go, and those of the backup
take their place. All or nothing, in one transaction.

The restoring role owns the tables. Privileges are not restored; grant them with
`hermes-pgvector migrate --runtime-role NAME`. The server needs pgvector, and the role
the right to create it in that database, if it is not there.

Examples:
  hermes-pgvector restore memory.dump
  hermes-pgvector restore memory.dump --execute
  hermes-pgvector restore memory.dump --replace hermes_memory --execute
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_pgmemory.cli import _database, _progress
from hermes_pgmemory.cli._result import Result, Table

if TYPE_CHECKING:
    from hermes_pgmemory.store.dump import Target


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `restore`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the backup to read")
    parser.add_argument(
        "--replace",
        metavar="DATABASE",
        help="the name of the database, if the memories that it holds are to go",
    )
    _database.add_admin_dsn(parser)
    parser.add_argument(
        "--execute", action="store_true", help="do it; without this, only look"
    )


def run(args: Namespace) -> Result:
    """Restore, or say what would happen."""
    from hermes_pgmemory.moving import backup  # noqa: PLC0415

    dsn = _database.owner_dsn_of(args)
    plan = backup.examine(dsn, args.file)
    _check(args, plan.target)
    into = f"database {plan.target.database}"
    if not args.execute:
        return Result(
            data={"executed": False, "database": plan.target.database},
            text=f"{args.file} would be restored into {into}; add --execute to do it",
        )
    with _progress.bar("restore"):
        counts = backup.restore(dsn, args.file, plan)
    return Result(
        data={
            "executed": True,
            "database": plan.target.database,
            "tables": dict(counts),
        },
        tables=[
            Table(
                title="restored",
                head=("table", "rows"),
                rows=[(name, f"{rows}") for name, rows in counts.items()],
            )
        ],
        text=f"{args.file} was restored into {into}",
    )


def _check(args: Namespace, target: Target) -> None:
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    if args.replace is not None and args.replace != target.database:
        raise BadRequest(f"--replace names {args.replace}, this is {target.database}")
    if target.memories and args.replace is None:
        raise BadRequest(
            f"database {target.database} holds {target.memories} entries and turns: "
            f"restore into another, or let them go with --replace {target.database}"
        )
