"""Merge theme OLD into theme NEW: entries, turns, registry, delegations.

What NEW has already stays one row: the older time is kept, a missing vector is taken
over, the duplicate goes. OLD is taken as it is, spelled as `stats` spells it; NEW
becomes the theme that an agent of that name has. Without --execute nothing is changed,
only counted.

First see to it that no agent writes to OLD any more (`identity_aliases` in the
settings), and let the journals drain: what is accepted for OLD later arrives in OLD.
Then run this until it moves nothing. What was applied from a journal stays applied, so
no replay brings OLD back.

--force also moves rows out of the buckets of direct messages, groups and benchmarks,
whose rows belong to single contacts: they keep their contact, and outside the bucket
nobody recalls them.

Examples:
  hermes-pgvector remap marketing-daily marketing
  hermes-pgvector remap marketing-daily marketing --execute
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hermes_pgmemory.cli import _database, _outcome, _print, _progress
from hermes_pgmemory.cli._result import Result


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `remap`."""
    parser.add_argument("old", metavar="OLD", help="the theme that goes")
    parser.add_argument("new", metavar="NEW", help="the theme that stays")
    parser.add_argument(
        "--force", action="store_true", help="even if OLD is a bucket of contacts"
    )
    _database.add_execute(parser)


def run(args: Namespace) -> Result:
    """Move one theme's rows to another, or count them."""
    from hermes_pgmemory import maintenance  # noqa: PLC0415

    settings = _database.settings_of(args)
    old, new = maintenance.themes_to_remap(
        args.old, args.new, settings, force=args.force
    )
    if maintenance.is_governed(new):
        _print.say(f"rows without a contact are recalled by no contact of {new}")
    with _database.opened(args, settings) as store, _progress.bar("remap") as advance:
        outcome = maintenance.remap(
            store, old, new, execute=args.execute, advance=advance
        )
    names = {"old": maintenance.label(old), "new": new}
    return _outcome.told(outcome, f"{names['old']} to {new}", facts=names, does="moved")
