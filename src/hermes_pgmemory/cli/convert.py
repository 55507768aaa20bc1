"""Turn the vectors of an adopted database into halfvec: half the space, faster recall.

A database of hermes-memory-pgvector keeps its vector columns when `migrate` takes it
over. This copies them into halfvec columns in parts of about half a second, beside
living agents, and then has both change places; afterwards the old vectors are gone.
Without --execute nothing is changed, only counted.

Killed at any point it has lost nothing; run it again and it goes on. It needs the
tables' owner. Locks: ACCESS EXCLUSIVE twice on each table, for a catalog change each,
waiting 2 s at a time; in between only the rows of the part at hand.

The old vectors' place on disk is free for PostgreSQL once the tables are rewritten:
VACUUM FULL memory_entries, conversations; in a quiet hour, because it locks them.

Examples:
  hermes-pgvector convert
  hermes-pgvector convert --execute
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from hermes_pgmemory.cli import _database, _outcome, _progress
from hermes_pgmemory.cli._result import Result


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `convert`."""
    parser.add_argument(
        "--execute", action="store_true", help="do it; without this, only count"
    )
    parser.add_argument(
        "--admin-dsn",
        metavar="DSN",
        help="connect as the tables' owner instead; - reads it from standard input, "
        "where other users cannot see it",
    )


def run(args: Namespace) -> Result:
    """Convert both tables, or count their vectors."""
    from hermes_pgmemory.maintenance import convert  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415

    settings = _database.settings_of(args)
    admin = sys.stdin.readline().strip() if args.admin_dsn == "-" else args.admin_dsn
    dsn = admin or _database.dsn_of(settings, HomePaths(args.home), start=True)
    with convert.opened(dsn) as conversion:
        found = convert.survey(conversion)
        total = sum(table.waiting for table in found)
        with _progress.bar("convert", total=total) as advance:
            outcome = convert.convert(
                conversion, found, execute=args.execute, advance=advance
            )
    return _outcome.told(
        outcome, "vectors that become halfvec", facts={}, does="converted"
    )
