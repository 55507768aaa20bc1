"""Store what waits in the journal now, after an outage or a crash.

Agents do this by themselves; this is for when none is running. What the database
still does not take stays in the journal.

Writes that the database refused on their merits are put aside as dead letters.
`--dead --list` shows them; `--dead`, once the cause is mended, tries them again, in
their order, after what waits. What is refused again stays. Whenever something was
refused the status is 1.

Examples:
  hermes-pgvector replay
  hermes-pgvector replay --dead --list
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli import _letters, _print
from hermes_pgmemory.cli._result import Result, Status, status_of

if TYPE_CHECKING:
    from hermes_pgmemory.engine import Engine
    from hermes_pgmemory.journal import JournalStatus
    from hermes_pgmemory.paths import HomePaths

TIMEOUT_S: Final = 600.0
WHY: Final = "`hermes-pgvector replay --dead --list` says why"


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
    done = _Done(before, before, before)
    if before.pending or (args.dead and before.dead_letters):
        with closing(Engine(paths, settings)) as engine:
            engine.start()
            done = _work(engine, before, dead=args.dead, timeout_s=args.timeout)
    if done.why_not:
        _print.complain(done.why_not)
    return _told(paths, done, dead=args.dead)


@dataclass(frozen=True, slots=True)
class _Done:
    """The journals before, between and after the two parts of the work."""

    before: JournalStatus
    drained: JournalStatus
    after: JournalStatus
    why_not: str = ""
    """What stood in the way; "" is nothing."""
    status: Status = Status.DONE

    @property
    def refused(self) -> int:
        """Writes that waited and were put aside instead of stored."""
        return max(0, self.drained.dead_letters - self.before.dead_letters)

    @property
    def stored(self) -> int:
        """Writes that waited and are stored now."""
        return max(0, self.before.pending - self.drained.pending - self.refused)

    @property
    def revived(self) -> int:
        """Dead letters that are stored now."""
        return max(0, self.drained.dead_letters - self.after.dead_letters)


def _work(
    engine: Engine, before: JournalStatus, *, dead: bool, timeout_s: float
) -> _Done:
    """Store what waits, then try dead letters again."""
    from hermes_pgmemory import journal  # noqa: PLC0415
    from hermes_pgmemory.errors import ConfigError, SchemaError, Unavailable  # noqa: PLC0415

    why_not, status = "", Status.DONE
    again = "the time is up; run it again"
    flushed = engine.writer.flush(timeout_s=timeout_s)
    drained = journal.inspect(engine.paths.journal)
    if not flushed:
        outage = engine.writer.outage
        why_not, status = outage.reason if outage else again, Status.UNAVAILABLE
        if outage and outage.for_operator:
            status = Status.FAILED
    elif dead:
        try:
            if not engine.retry_dead_letters(timeout_s=timeout_s):
                why_not, status = again, Status.UNAVAILABLE
        except (Unavailable, SchemaError, ConfigError) as exc:
            why_not, status = str(exc), status_of(exc)
    after = journal.inspect(engine.paths.journal)
    return _Done(before, drained, after, why_not, status)


def _told(paths: HomePaths, done: _Done, *, dead: bool) -> Result:
    from hermes_pgmemory import journal  # noqa: PLC0415
    from hermes_pgmemory.dead_letters import shown  # noqa: PLC0415

    left = shown(journal.dead_letters(paths.journal)) if dead else []
    stored, status = done.stored + done.revived, done.status
    if status is Status.DONE and (done.refused or left):
        status = Status.FAILED
    data: dict[str, Any] = {
        "stored": stored,
        "refused": done.refused,
        "pending": done.after.pending,
        "dead_letters": done.after.dead_letters,
    }
    if dead:
        data |= {"revived": done.revived, "letters": _letters.data(left)}
    elif done.refused:
        _print.complain(f"the database refused {done.refused} writes; {WHY}")
    return Result(
        data=data,
        tables=[_letters.table(left)] if left else [],
        text=(
            f"stored {stored} writes, {done.after.pending} wait, "
            f"{done.after.dead_letters} were refused by the database"
        ),
        status=status,
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
