"""Write a backup of the whole memory, by PostgreSQL's pg_dump.

Our tables alone, as they are at one moment, while agents go on: entries, turns, their
vectors, settings, and how far each journal was applied. The file is as private as the
database: it holds what was said, and the key that turns contacts into hashes.

The database is told to pg_dump by its environment, never on a command line. It needs a
role that may read all our tables; --verify needs one that may create databases.

Examples:
  hermes-pgvector backup memory.dump
  hermes-pgvector backup --verify memory.dump
  hermes-pgvector backup --admin-dsn - memory.dump
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from hermes_pgmemory.cli import _database, _print, _progress
from hermes_pgmemory.cli._result import Result, Table


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `backup`."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="file to write, replaced when the new one is whole",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="restore it into a database of its own beside, and compare the rows",
    )
    _database.add_admin_dsn(parser)


def run(args: Namespace) -> Result:
    """Write the file, and try it."""
    from hermes_pgmemory.moving import backup  # noqa: PLC0415

    dsn = _database.owner_dsn_of(args)
    with _progress.bar("backup"):
        counts = backup.backup(dsn, args.file, tell=_print.say)
    if args.verify:
        with _progress.bar("verify"):
            backup.verify(dsn, args.file, counts)
    size = args.file.stat().st_size
    tried = "; it restores to the same rows" if args.verify else ""
    return Result(
        data={
            "file": str(args.file),
            "bytes": size,
            "verified": args.verify,
            "tables": dict(counts),
        },
        tables=[
            Table(
                title="backed up",
                head=("table", "rows"),
                rows=[(name, f"{rows}") for name, rows in counts.items()],
            )
        ],
        text=f"{args.file}: {size / 1_000_000:.1f} MB{tried}",
    )
