"""Delete old conversation turns; memory entries are never touched.

A turn goes when it was said more than N times 24 hours before the command started, to
the microsecond and whatever the time zone of this host or of the database. Without
--execute nothing is deleted, only counted.

Runs in parts of about half a second, beside living agents; what was deleted stays
deleted when it is interrupted, and running it again goes on.

Examples:
  hermes-pgvector prune --days 90
  hermes-pgvector prune --days 90 --execute
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hermes_pgmemory.cli import _database, _outcome, _progress
from hermes_pgmemory.cli._result import Result

if TYPE_CHECKING:
    from hermes_pgmemory.config import Settings


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `prune`."""
    parser.add_argument(
        "--days",
        type=int,
        metavar="N",
        help="how old a turn may be (default: the setting ttl_days)",
    )
    _database.add_theme(parser)
    _database.add_execute(parser)


def run(args: Namespace) -> Result:
    """Delete the turns before one instant, or count them."""
    from hermes_pgmemory import maintenance  # noqa: PLC0415

    now = datetime.now(UTC)
    settings = _database.settings_of(args)
    days = _days(args, settings)
    before = maintenance.cutoff(days, now)
    with _database.opened(args, settings) as store, _progress.bar("prune") as advance:
        outcome = maintenance.prune(
            store,
            before=before,
            theme=args.theme,
            execute=args.execute,
            advance=advance,
        )
    return _outcome.told(
        outcome,
        f"turns said before {before:%Y-%m-%d %H:%M:%S} UTC",
        facts={"days": days, "before": before.isoformat(), "theme": args.theme},
        does="deleted",
    )


def _days(args: Namespace, settings: Settings) -> int:
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    days: int | None = args.days
    if days is not None:
        return days
    if not settings.ttl_days:
        raise BadRequest("say --days N, or set plugins.pgvector.ttl_days")
    return settings.ttl_days
