"""Conversations of elsewhere, told as the host tells one at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast

from hermes_pgmemory import capture
from hermes_pgmemory.capture import Room
from hermes_pgmemory.models import AddTurn
from hermes_pgmemory.moving.values import Item, Skipped
from hermes_pgmemory.store.moved import MovedTurn

NOISE: Final = "says too little to be kept: see plugins.pgvector.turn_min_chars"
_SPOKEN: Final = ("user", "assistant")


def turns(
    messages: Sequence[Mapping[str, Any]], *, room: Room, at: datetime, source: str
) -> Iterator[Item]:
    """Yield the turns of one session, by the very code that hears a live one.

    What an agent has kept of the session is there already, whichever way it was told.

    Args:
        messages: As the host's: `role`, `content`, `timestamp`; all of the session.
        room: What they share.
        at: When the session began, for messages that tell no time.
        source: Where they came from.
    """
    kept = capture.transcript(messages, room=room, at=at)
    spoken = sum(message.get("role") in _SPOKEN for message in messages)
    for _ in range(spoken - len(kept)):
        yield Skipped(room.speaker.theme, "turns", NOISE)
    origin = {"write_origin": "import", "import_source": source}
    for write in kept:
        turn = cast("AddTurn", write)
        yield MovedTurn(write=replace(turn, metadata={**turn.metadata, **origin}))
