"""How commands show dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli._result import Table

if TYPE_CHECKING:
    from hermes_pgmemory.dead_letters import Shown

_HEAD: Final = ("letter", "at", "kind", "theme", "reason", "snippet")


def data(letters: Sequence[Shown]) -> list[dict[str, Any]]:
    """Return what `--json` shows."""
    return [{name: getattr(letter, name) for name in _HEAD} for letter in letters]


def table(letters: Sequence[Shown]) -> Table:
    """Lay *letters* out for people."""
    rows = [tuple(getattr(letter, name) for name in _HEAD) for letter in letters]
    return Table(title="refused by the database", head=_HEAD, rows=rows)
