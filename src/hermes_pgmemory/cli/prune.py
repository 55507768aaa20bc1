"""Delete what is old or too much; entries that are in use are never touched.

Turns go by age (--days, or the setting ttl_days) and by number (--max-rows: each theme
keeps its newest ones, in a bucket those of all contacts together); with both, what
either lets go. Entries that no memory file holds any more go by --retired-days. What
entries said before they were changed goes with every run, by --history-days or the
setting history_days.

A row goes when it is more than N times 24 hours older than the moment the command
started, to the microsecond and whatever the time zone of this host or of the database.
Without --execute nothing is deleted, only counted.

Runs in parts of about half a second, beside living agents; what was deleted stays
deleted when it is interrupted, and running it again goes on.

Examples:
  hermes-pgvector prune --days 90
  hermes-pgvector prune --max-rows 50000 --theme marketing --execute
  hermes-pgvector prune --retired-days 30 --history-days 90 --execute
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hermes_pgmemory.cli import _database, _outcome, _progress
from hermes_pgmemory.cli._result import Result

if TYPE_CHECKING:
    from hermes_pgmemory.config import Settings
    from hermes_pgmemory.maintenance.prune import Limits


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `prune`."""
    parser.add_argument(
        "--days",
        type=int,
        metavar="N",
        help="how old a turn may be (default: the setting ttl_days)",
    )
    parser.add_argument(
        "--max-rows",
        type=int,
        metavar="N",
        help="how many turns a theme may have; the oldest go first",
    )
    parser.add_argument(
        "--retired-days",
        type=int,
        metavar="N",
        help="for how long an entry that no memory file holds is kept (default: for "
        "ever)",
    )
    parser.add_argument(
        "--history-days",
        type=int,
        metavar="N",
        help="how long what entries said before is kept (default: the setting "
        "history_days)",
    )
    _database.add_theme(parser)
    _database.add_execute(parser)


def run(args: Namespace) -> Result:
    """Delete what is beyond the limits, or count it."""
    from hermes_pgmemory import maintenance  # noqa: PLC0415

    settings = _database.settings_of(args)
    days = _days(args, settings)
    limits = _limits(args, days, settings, datetime.now(UTC))
    with _database.opened(args, settings) as store, _progress.bar("prune") as advance:
        outcome = maintenance.prune(
            store,
            limits=limits,
            theme=args.theme,
            execute=args.execute,
            advance=advance,
        )
    before = limits.turns_before
    facts: dict[str, Any] = {
        "days": days,
        "before": before and before.isoformat(),
        "max_rows": args.max_rows,
        "theme": args.theme,
    }
    title = f"turns said before {before:%Y-%m-%d %H:%M:%S} UTC" if before else "pruned"
    return _outcome.told(outcome, title, facts=facts, does="deleted")


def _days(args: Namespace, settings: Settings) -> int | None:
    """Return how old a turn may be; None where only other limits are given."""
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    days: int | None = args.days
    if days is None and (args.max_rows, args.retired_days, args.history_days) == (
        None,
        None,
        None,
    ):
        if not settings.ttl_days:
            raise BadRequest(
                "say --days N, --max-rows N, --retired-days N or --history-days N, or "
                "set plugins.pgvector.ttl_days"
            )
        return settings.ttl_days
    return days


def _limits(
    args: Namespace, days: int | None, settings: Settings, now: datetime
) -> Limits:
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415
    from hermes_pgmemory.maintenance.prune import MAX_ROWS, Limits, cutoff  # noqa: PLC0415

    if args.max_rows is not None and not 1 <= args.max_rows <= MAX_ROWS:
        raise BadRequest(f"--max-rows must be from 1 to {MAX_ROWS}")

    def before(days: int | None, option: str) -> datetime | None:
        return None if days is None else cutoff(days, now, option=option)

    history = args.history_days
    if history is None:
        history = settings.history_days or None
    return Limits(
        turns_before=before(days, "--days"),
        max_turns=args.max_rows,
        retired_before=before(args.retired_days, "--retired-days"),
        history_before=before(history, "--history-days"),
    )
