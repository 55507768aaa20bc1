"""Show what entries of a theme said before, what took its place, when and from where.

The latest change comes first. Replaced, removed and retired entries are kept until
`prune` deletes what is older than --history-days, or the setting history_days. Entries
that an agent added are in `stats` and in the memory files; only changes are here.

What entries of a contact said is the contact's: it is shown only to who gives its
--subject, as the column of that name in a row spells it.

Examples:
  hermes-pgvector history --theme marketing
  hermes-pgvector history --theme marketing --match "opening hours" --limit 5 --json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli import _database
from hermes_pgmemory.cli._result import Result, Table
from hermes_pgmemory.cli._themes import minute, one_line

if TYPE_CHECKING:
    from hermes_pgmemory.store.history import Change

TIMEOUT_S: Final = 60.0
LIMIT: Final = 50
LARGEST_LIMIT: Final = 10_000
SHOWN_CHARS: Final = 60


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `history`."""
    parser.add_argument(
        "--theme",
        metavar="NAME",
        required=True,
        help="whose entries, spelled as `stats` spells the theme",
    )
    parser.add_argument(
        "--match",
        metavar="TEXT",
        help="only entries that held this text, in upper or lower case",
    )
    parser.add_argument(
        "--subject", metavar="HASH", help="the entries of this contact, and no others"
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=LIMIT,
        metavar="N",
        help=f"how many at most, 1 to {LARGEST_LIMIT} (default: {LIMIT})",
    )


def run(args: Namespace) -> Result:
    """Read the history of a theme's entries."""
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    if not 1 <= args.limit <= LARGEST_LIMIT:
        raise BadRequest(f"--limit must be from 1 to {LARGEST_LIMIT}")
    settings = _database.settings_of(args)
    with _database.opened(args, settings) as store:
        changes = store.maintenance.history.read(
            args.theme,
            subject=args.subject,
            match=args.match,
            limit=args.limit,
            timeout_s=TIMEOUT_S,
        )
        if not changes:
            store.moving.check_known([args.theme], timeout_s=TIMEOUT_S)
    return Result(
        data={"changes": [_data(change) for change in changes]},
        tables=[_table(changes)] if changes else [],
        text="" if changes else "nothing was changed",
    )


def _data(change: Change) -> dict[str, Any]:
    return {
        "entry": change.entry,
        "target": change.target.value,
        "change": change.change,
        "before": change.content,
        "after": change.now,
        "since": change.since.isoformat(),
        "at": change.at.isoformat(),
        "from": dict(change.metadata),
    }


def _table(changes: list[Change]) -> Table:
    rows = [
        (
            minute(change.at),
            change.change,
            change.target.value,
            one_line(change.content, SHOWN_CHARS),
            one_line(change.now or "", SHOWN_CHARS),
            " ".join(str(value) for value in change.metadata.values()),
        )
        for change in changes
    ]
    head = ("at", "change", "target", "before", "after", "from")
    return Table(title="history", head=head, rows=rows)
