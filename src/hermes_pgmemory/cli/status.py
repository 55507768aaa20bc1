"""Show how every part is: door, settings, database, model, journal, servers.

Looks only: nothing is started and nothing is written, and a part that is down says
so without hiding the others.

Example:
  hermes-pgvector status --json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from hermes_pgmemory.cli._result import Result, Table

if TYPE_CHECKING:
    from hermes_pgmemory.models import ThemeCount


def configure(parser: ArgumentParser) -> None:
    """Declare no arguments."""
    del parser


def run(args: Namespace) -> Result:
    """Look at everything and show it."""
    from hermes_pgmemory.cli import _survey  # noqa: PLC0415

    survey = _survey.look(args.home)
    bad = (_survey.State.PROBLEM, _survey.State.UNAVAILABLE)
    parts = [(name, part.state, part.detail) for name, part in survey.parts.items()]
    return Result(
        data={
            "home": str(args.home),
            "ok": not any(part.state in bad for part in survey.parts.values()),
            "parts": {
                name.replace(" ", "_"): part.as_data()
                for name, part in survey.parts.items()
            },
            "themes": [_as_data(theme) for theme in survey.themes],
        },
        tables=[
            Table(title=f"hermes-pgmemory in {args.home}", rows=parts),
            Table(
                title="themes",
                head=("theme", "kind", "entries", "turns", "unembedded", "last seen"),
                rows=[_as_row(theme) for theme in survey.themes],
            ),
        ],
    )


def _as_data(theme: ThemeCount) -> dict[str, Any]:
    return {
        "theme": theme.theme,
        "kind": theme.kind,
        "entries": theme.entries,
        "turns": theme.turns,
        "unembedded": theme.unembedded,
        "last_seen": None if theme.last_seen is None else theme.last_seen.isoformat(),
    }


def _as_row(theme: ThemeCount) -> tuple[str, ...]:
    seen = "" if theme.last_seen is None else f"{theme.last_seen:%Y-%m-%d %H:%M %Z}"
    counts = (theme.entries, theme.turns, theme.unembedded)
    return (theme.theme, theme.kind or "", *map(str, counts), seen)
