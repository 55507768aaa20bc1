"""Honcho: messages become turns, conclusions become entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory.models import Target
from hermes_pgmemory.moving.sources.documents import items, text
from hermes_pgmemory.moving.turns import room_of, turns
from hermes_pgmemory.moving.values import (
    Aim,
    Item,
    Skipped,
    entry,
    first_moment,
)

NAME: Final = "honcho"
NEITHER: Final = "neither a message nor a conclusion"

Message = Mapping[str, Any]


def read(paths: Sequence[Path], aim: Aim) -> Iterator[Item]:
    """Yield what JSON documents hold: messages, session by session, and conclusions."""
    told = [[*items(path)] for path in paths]  # all of them, or none if one is bad
    for document in told:
        sessions: dict[str, list[Message]] = {}
        for said in document:
            if text(said.get("peer_id")) and text(said.get("session_id")):
                sessions.setdefault(said["session_id"], []).append(said)
            elif text(said.get("observed_id")):
                yield _conclusion(said, aim)
            else:
                yield Skipped("", "entries", NEITHER)
        for name, messages in sessions.items():
            yield from _session(name, messages, aim)


def _conclusion(said: Message, aim: Aim) -> Item:
    observed = said["observed_id"]
    about_agent = observed in aim.assistants
    owner = aim.owner(
        name=text(said.get("workspace_id")),
        user="" if about_agent else observed,
        key=text(said.get("session_id")),
    )
    return entry(
        owner,
        said.get("content"),
        at=first_moment(said, "created_at") or datetime.now(UTC),
        target=Target.MEMORY if about_agent else Target.USER,
        source=NAME,
        note={
            "import_id": text(said.get("id")),
            "about": observed,
            "level": text(said.get("level")),
        },
    )


def _session(name: str, messages: Sequence[Message], aim: Aim) -> Iterator[Item]:
    ordered = sorted(messages, key=lambda m: text(m.get("created_at")))
    user = next(
        (m["peer_id"] for m in ordered if m["peer_id"] not in aim.assistants), ""
    )
    workspace = text(ordered[0].get("workspace_id"))
    owner = aim.owner(name=workspace, user=user, key=name)
    room = room_of(owner, name, aim=aim)
    at = first_moment(ordered[0], "created_at") or datetime.now(UTC)
    yield from turns([*_told(ordered, aim)], room=room, at=at, source=NAME)


def _told(messages: Sequence[Message], aim: Aim) -> Iterator[dict[str, Any]]:
    for message in messages:
        at = first_moment(message, "created_at")
        yield {
            "role": "assistant" if message["peer_id"] in aim.assistants else "user",
            "content": message.get("content"),
            "timestamp": at and at.timestamp(),
        }
