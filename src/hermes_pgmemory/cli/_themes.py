"""What the themes hold, told the same way by every command that tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli._result import Table

if TYPE_CHECKING:
    from hermes_pgmemory.models import ThemeCount

_COUNTED: Final = (
    "entries",
    "retired",
    "turns",
    "unembedded_entries",
    "unembedded_turns",
)


def data(themes: Sequence[ThemeCount]) -> dict[str, Any]:
    """Return the themes and their totals for JSON."""
    told = [asdict(one) | {"last_seen": _iso(one.last_seen)} for one in themes]
    return {"themes": told, "totals": totals(themes)}


def totals(themes: Sequence[ThemeCount]) -> Mapping[str, int]:
    """Add up what all themes hold."""
    sums = {name: sum(getattr(one, name) for one in themes) for name in _COUNTED}
    return {"themes": len(themes), **sums}


def table(themes: Sequence[ThemeCount]) -> Table:
    """Return the themes, and below them all together, for people."""
    rows: list[tuple[str, ...]] = [
        (
            one.theme,
            one.kind or "",
            *(f"{getattr(one, name)}" for name in _COUNTED),
            minute(one.last_seen),
        )
        for one in themes
    ]
    sums = totals(themes)
    if themes:
        rows.append(("all", "", *(f"{sums[name]}" for name in _COUNTED), ""))
    words = (name.replace("_", " ") for name in _COUNTED)
    return Table(title="themes", head=("theme", "kind", *words, "last seen"), rows=rows)


def minute(at: datetime | None) -> str:
    """Return a time as people read it."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M %Z}"


def one_line(text: str, n: int) -> str:
    """Return *text* in one line of at most *n* printable characters, and "…" if cut."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= n else f"{line[:n]}…"


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
