"""Store what waits in the journal now, after an outage or a crash.

Agents do this by themselves; this is for when none is running. What the database
still does not take stays in the journal.

Example:
  hermes-pgvector replay
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli import _print
from hermes_pgmemory.cli._result import Result, Status

if TYPE_CHECKING:
    from hermes_pgmemory.journal import JournalStatus

TIMEOUT_S: Final = 600.0


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `replay`."""
    parser.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help=f"how long to go on at most (default: {TIMEOUT_S:.0f})",
    )


def run(args: Namespace) -> Result:
    """Drain the journals that no living process drains."""
    from hermes_pgmemory import journal  # noqa: PLC0415
    from hermes_pgmemory.config import parse  # noqa: PLC0415
    from hermes_pgmemory.engine import Engine  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415
    from hermes_pgmemory.settings_file import load_section  # noqa: PLC0415

    paths = HomePaths(args.home)
    settings = parse(load_section(paths.config)).checked()
    before = journal.inspect(paths.journal)
    if not before.pending:
        return Result(data=_data(0, before), text=_told(0, before))
    engine = Engine(paths, settings)
    try:
        engine.start()
        done = engine.writer.flush(timeout_s=args.timeout)
        outage = engine.writer.outage
    finally:
        engine.close()
    after = journal.inspect(paths.journal)
    if not done:
        _print.complain(outage.reason if outage else "the time is up; run it again")
    stored = max(0, before.pending - after.pending)
    return Result(
        data=_data(stored, after),
        text=_told(stored, after),
        status=Status.DONE if done else Status.UNAVAILABLE,
    )


def _data(stored: int, status: JournalStatus) -> dict[str, Any]:
    return {
        "stored": stored,
        "pending": status.pending,
        "dead_letters": status.dead_letters,
    }


def _told(stored: int, status: JournalStatus) -> str:
    return (
        f"stored {stored} writes, {status.pending} wait, "
        f"{status.dead_letters} were refused by the database"
    )
