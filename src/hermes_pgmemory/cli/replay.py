"""Store what waits in the journal now, after an outage or a crash.

Agents do this by themselves; this is for when none is running. What the database
still does not take stays in the journal.

Writes that the database refused on their merits are put aside as dead letters.
`--dead --list` shows them; `--dead`, once the cause is mended, tries them again, in
their order, after what waits. What is refused again stays, and the status is 1.

Examples:
  hermes-pgvector replay
  hermes-pgvector replay --dead --list
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli import _letters, _print
from hermes_pgmemory.cli._result import Result, Status

if TYPE_CHECKING:
    from hermes_pgmemory.engine import Engine
    from hermes_pgmemory.journal import JournalStatus
    from hermes_pgmemory.paths import HomePaths

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
    parser.add_argument(
        "--dead",
        action="store_true",
        help="try again what the database refused, also that of running agents",
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="with --dead: show what was refused and why, and change nothing",
    )


def run(args: Namespace) -> Result:
    """Drain the journals that no living process drains."""
    from hermes_pgmemory import journal  # noqa: PLC0415
    from hermes_pgmemory.config import parse  # noqa: PLC0415
    from hermes_pgmemory.engine import Engine  # noqa: PLC0415
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415
    from hermes_pgmemory.settings_file import load_section  # noqa: PLC0415

    paths = HomePaths(args.home)
    if args.list:
        if not args.dead:
            raise BadRequest("--list goes with --dead")
        return _listed(paths)
    settings = parse(load_section(paths.config)).checked()
    before = journal.inspect(paths.journal)
    todo = before.pending or (args.dead and before.dead_letters)
    why_not: str | None = None
    if todo:
        with closing(Engine(paths, settings)) as engine:
            engine.start()
            why_not = _drain(engine, dead=args.dead, timeout_s=args.timeout)
    if why_not:
        _print.complain(why_not)
    return _told(paths, before, dead=args.dead, done=not why_not)


def _drain(engine: Engine, *, dead: bool, timeout_s: float) -> str | None:
    """Store what waits, then try dead letters again; return what stands in the way."""
    from hermes_pgmemory.errors import ConfigError, SchemaError, Unavailable  # noqa: PLC0415

    again = "the time is up; run it again"
    if not engine.writer.flush(timeout_s=timeout_s):
        outage = engine.writer.outage
        return outage.reason if outage else again
    try:
        if dead and not engine.retry_dead_letters(timeout_s=timeout_s):
            return again
    except (Unavailable, SchemaError, ConfigError) as exc:
        return str(exc)
    return None


def _told(paths: HomePaths, before: JournalStatus, *, dead: bool, done: bool) -> Result:
    from hermes_pgmemory import journal  # noqa: PLC0415
    from hermes_pgmemory.dead_letters import shown  # noqa: PLC0415

    after = journal.inspect(paths.journal)
    stored = max(0, before.pending - after.pending)
    revived = max(0, before.dead_letters - after.dead_letters) if dead else 0
    left = shown(journal.dead_letters(paths.journal)) if dead else []
    data: dict[str, Any] = {
        "stored": stored + revived,
        "pending": after.pending,
        "dead_letters": after.dead_letters,
    }
    if dead:
        data |= {"revived": revived, "letters": _letters.data(left)}
    status = Status.DONE if done else Status.UNAVAILABLE
    return Result(
        data=data,
        tables=[_letters.table(left)] if left else [],
        text=(
            f"stored {stored + revived} writes, {after.pending} wait, "
            f"{after.dead_letters} were refused by the database"
        ),
        status=Status.FAILED if done and left else status,
    )


def _listed(paths: HomePaths) -> Result:
    from hermes_pgmemory import journal  # noqa: PLC0415
    from hermes_pgmemory.dead_letters import shown  # noqa: PLC0415

    letters = shown(journal.dead_letters(paths.journal))
    return Result(
        data={
            "dead_letters": len(letters),
            "letters": _letters.data(letters),
        },
        tables=[_letters.table(letters)] if letters else [],
        text="" if letters else "no dead letters",
    )
