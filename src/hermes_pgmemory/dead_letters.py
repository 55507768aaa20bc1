"""How dead letters are shown: enough to find the cause, never a whole text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hermes_pgmemory.codec import decode, tag_of
from hermes_pgmemory.errors import UnstorableWrite
from hermes_pgmemory.hygiene import storable
from hermes_pgmemory.journal import DeadLetter
from hermes_pgmemory.models import RecordDelegation, RemoveEntry, SeeAgent, Write

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


def shown(letters: Sequence[DeadLetter]) -> list[Shown]:
    """Describe *letters*, in their order."""
    return [_shown(letter) for letter in letters]


def _shown(letter: DeadLetter) -> Shown:
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
