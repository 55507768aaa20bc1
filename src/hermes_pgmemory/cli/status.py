"""Show how every part is: door, database, journal, agents, servers.

Looks only: nothing is started and nothing is written, and a part that is down says
so without hiding the others. The numbers of running agents are seconds old.

Example:
  hermes-pgvector status --json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hermes_pgmemory.cli import _themes
from hermes_pgmemory.cli._result import Result, Table


def configure(parser: ArgumentParser) -> None:
    """Declare no arguments."""
    del parser


def run(args: Namespace) -> Result:
    """Look at everything and show it."""
    from hermes_pgmemory import survey  # noqa: PLC0415

    looked = survey.look(args.home)
    bad = (survey.State.PROBLEM, survey.State.UNAVAILABLE)
    parts = [(name, part.state, part.detail) for name, part in looked.parts.items()]
    return Result(
        data={
            "home": str(args.home),
            "ok": not any(part.state in bad for part in looked.parts.values()),
            "parts": {
                name.replace(" ", "_"): part.as_data()
                for name, part in looked.parts.items()
            },
            **_themes.data(looked.themes),
        },
        tables=[
            Table(title=f"hermes-pgmemory in {args.home}", rows=parts),
            _themes.table(looked.themes),
        ],
    )
