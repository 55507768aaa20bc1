"""Check every precondition, one line each, and say what to do about what is wrong.

Unlike `status` it tries things: it starts the embedded server and the local model, asks
the model, and times one recall. It writes nothing. Exit status: 0 if all is good, 1 if
something is wrong, 3 if something only does not answer.

Example:
  hermes-pgvector doctor
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hermes_pgmemory.cli._result import Result, Status, Table


def configure(parser: ArgumentParser) -> None:
    """Declare no arguments."""
    del parser


def run(args: Namespace) -> Result:
    """Run every check and show what it found."""
    from hermes_pgmemory.cli import _doctor  # noqa: PLC0415

    found = dict(_doctor.examine(_doctor.World(args.home)))
    levels = {finding.level for finding in found.values()}
    status = Status.DONE
    if _doctor.Level.WRONG in levels:
        status = Status.FAILED
    elif levels & {_doctor.Level.UNAVAILABLE, _doctor.Level.UNKNOWN}:
        status = Status.UNAVAILABLE
    bad = sum(one.level not in {"ok", "note"} for one in found.values())
    return Result(
        data={
            "home": str(args.home),
            "ok": status is Status.DONE,
            "checks": {
                name: {
                    "level": one.level,
                    "detail": one.detail,
                    "fix": one.fix,
                    "facts": one.facts,
                }
                for name, one in found.items()
            },
        },
        tables=[
            Table(
                title=f"checks of {args.home}",
                rows=[
                    (
                        name,
                        one.level,
                        f"{one.detail} -> {one.fix}" if one.fix else one.detail,
                    )
                    for name, one in found.items()
                ],
            )
        ],
        text=f"{bad} of {len(found)} checks need attention" if bad else "all is well",
        status=status,
    )
