"""Conversations of elsewhere, told as the host tells one at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast

from hermes_pgmemory import capture
from hermes_pgmemory.capture import Room
from hermes_pgmemory.contacts import veiled
from hermes_pgmemory.models import AddTurn
from hermes_pgmemory.moving.values import Aim, Item, Owner, Skipped, provenance
from hermes_pgmemory.store.moved import MovedTurn
from hermes_pgmemory.turn_ledger import Speaker, TurnLedger

NOISE: Final = "says too little to be kept: see plugins.pgvector.turn_min_chars"
_SPOKEN: Final = ("user", "assistant")


def room_of(
    owner: Owner, session: str, *, aim: Aim, ledger: TurnLedger | None = None
) -> Room:
    """Return a session of elsewhere as a live one would be heard.

    Args:
        owner: Whose it is.
        session: Its id there, which names nobody any more where it is a contact's.
        aim: Where it goes.
        ledger: What was said in it so far; None begins anew.
    """
    theme, subject = owner
    name = veiled(session, bytes.fromhex(aim.key)) if subject else session
    _, settings = aim.settings_of(aim.home)
    return Room(
        session_id=name,
        speaker=Speaker(theme=theme, subject=subject, session_id=name),
        settings=settings,
        ledger=TurnLedger() if ledger is None else ledger,
    )


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
    for write in kept:
        yield moved(cast("AddTurn", write), source=source)


def moved(turn: AddTurn, *, source: str) -> MovedTurn:
    """Return *turn* with where it came from."""
    origin = provenance(source, {})
    return MovedTurn(write=replace(turn, metadata={**turn.metadata, **origin}))
