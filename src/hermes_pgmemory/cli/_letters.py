"""How dead letters are shown: enough to find the cause, never a whole text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli._result import Table

if TYPE_CHECKING:
    from hermes_pgmemory.journal import DeadLetter
    from hermes_pgmemory.models import Write

SNIPPET_CHARS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One dead letter as people and programs see it."""

    letter: str
    """Slot and position, like 3/17; the same as long as it is one."""
    at: str
    kind: str
    theme: str
    reason: str
    snippet: str
    """The first words; empty where the text is one person's own."""

    def as_data(self) -> dict[str, Any]:
        """Return what `--json` shows."""
        return {name: getattr(self, name) for name in _HEAD}

    def as_row(self) -> tuple[str, ...]:
        """Return what people see."""
        return tuple(getattr(self, name) for name in _HEAD)


_HEAD: Final = ("letter", "at", "kind", "theme", "reason", "snippet")


def shown(letters: Sequence[DeadLetter]) -> list[Shown]:
    """Describe *letters*, in their order."""
    return [_shown(letter) for letter in letters]


def table(letters: Sequence[Shown]) -> Table:
    """Lay *letters* out for people."""
    rows = [letter.as_row() for letter in letters]
    return Table(title="refused by the database", head=_HEAD, rows=rows)


def _shown(letter: DeadLetter) -> Shown:
    from hermes_pgmemory.codec import decode, tag_of  # noqa: PLC0415
    from hermes_pgmemory.errors import UnstorableWrite  # noqa: PLC0415

    kind, theme, snippet = "unreadable", "", ""
    try:
        write = decode(letter.text)
    except UnstorableWrite:
        pass
    else:
        kind, theme, snippet = tag_of(write), write.theme, _snippet(write)
    at = datetime.fromtimestamp(letter.accepted_at, UTC)
    return Shown(
        letter=f"{letter.slot}/{letter.position}",
        at=at.isoformat(timespec="seconds"),
        kind=kind,
        theme=theme,
        reason=letter.reason,
        snippet=snippet,
    )


def _snippet(write: Write) -> str:
    from hermes_pgmemory.hygiene import storable  # noqa: PLC0415
    from hermes_pgmemory.models import (  # noqa: PLC0415
        RecordDelegation,
        RemoveEntry,
        SeeAgent,
    )

    match write:
        case SeeAgent():
            return ""
        case RemoveEntry():
            text, subject = write.old_text, write.subject
        case RecordDelegation():
            text, subject = write.task, write.subject
        case _:
            text, subject = write.content, write.subject
    if subject is not None:
        return ""
    # Redacted before it is cut: half a secret would not be known for one.
    line = " ".join(storable(text, max_chars=len(text) + 1).split())
    line = "".join(char for char in line if char.isprintable())
    return line if len(line) <= SNIPPET_CHARS else f"{line[:SNIPPET_CHARS]}…"
