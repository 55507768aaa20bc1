"""Honcho: messages become turns, conclusions become entries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory.models import Target
from hermes_pgmemory.moving.sources.documents import items, text
from hermes_pgmemory.moving.turns import room_of, turns
from hermes_pgmemory.moving.values import (
    Aim,
    Item,
    Owner,
    Skipped,
    entry,
    first_moment,
    is_contact,
)
from hermes_pgmemory.session_keys import PLATFORMS, Chat, chat_of_type

NAME: Final = "honcho"
NEITHER: Final = "neither a message nor a conclusion"
_CHAT: Final = re.compile(
    rf"agent-(.+?)-({'|'.join(sorted(PLATFORMS))})-([a-z0-9]+)(?:-(.+))?"
)
"""What the host's plugin makes of the key of a chat: all but letters, digits and `_`
becomes `-`."""
_NEVER: Final = datetime.min.replace(tzinfo=UTC)

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Heard:
    """What documents hold, gathered.

    A session may be spread over several, as the API pages it, and one message may be
    in several. Conclusions tell less about themselves than messages do: the workspace,
    and whose chats somebody was heard in, come from these.
    """

    sessions: dict[tuple[str, str], dict[object, Message]] = field(
        default_factory=dict[tuple[str, str], dict[object, Message]]
    )
    """By the workspace and the session, its messages by their ids."""
    conclusions: list[Message] = field(default_factory=list[Message])
    partners: dict[str, Owner | None] = field(default_factory=dict[str, Owner | None])
    """Whose all sessions of a peer are; None if they are several's."""

    def take(self, said: Message) -> bool:
        """Keep *said*, or tell that it is neither a message nor a conclusion."""
        session = text(said.get("session_id"))
        if text(said.get("peer_id")) and session:
            place = text(said.get("workspace_id")), session
            known = self.sessions.setdefault(place, {})
            known.setdefault(text(said.get("id")) or len(known), said)
        elif text(said.get("observed_id")):
            self.conclusions.append(said)
        else:
            return False
        return True

    def workspace(self) -> str:
        """Return the workspace of all messages, if it is one."""
        found = {workspace for workspace, _ in self.sessions}
        return found.pop() if len(found) == 1 else ""

    def note(self, owner: Owner, messages: Sequence[Message]) -> None:
        """Note that all who speak in *messages* were heard in a session of *owner*."""
        for peer in {message["peer_id"] for message in messages}:
            known = self.partners.setdefault(peer, owner)
            self.partners[peer] = owner if known == owner else None


def read(paths: Sequence[Path], aim: Aim) -> Iterator[Item]:
    """Yield what JSON documents hold: messages, session by session, and conclusions."""
    heard = _Heard()
    told = [one for path in paths for one in items(path)]  # or none, if one is bad
    for one in told:
        if not heard.take(one):
            yield Skipped("", "entries", NEITHER)
    for (workspace, name), messages in heard.sessions.items():
        ordered = _in_order([*messages.values()])
        owner = _owner(workspace, name, ordered, aim)
        heard.note(owner, ordered)
        yield from _session(name, ordered, owner, aim)
    workspace = heard.workspace()
    for said in heard.conclusions:
        partner = heard.partners.get(said["observed_id"])
        yield _conclusion({"workspace_id": workspace, **said}, partner, aim)


def _in_order(messages: Sequence[Message]) -> Sequence[Message]:
    """Return *messages* from the first to the last; several may share one moment."""
    timed = [(first_moment(said, "created_at") or _NEVER, said) for said in messages]
    if timed[0][0] > timed[-1][0]:  # the API was asked for the last ones first
        timed.reverse()
    return [said for _, said in sorted(timed, key=lambda one: one[0])]


def _owner(
    workspace: str, session: str, messages: Sequence[Message], aim: Aim
) -> Owner:
    peers = [m["peer_id"] for m in messages if m["peer_id"] not in aim.assistants]
    user = next((peer for peer in peers if is_contact(peer)), peers[0] if peers else "")
    return _chat(workspace, session, user, aim) or aim.owner(
        name=workspace, user=user, key=session
    )


def _chat(workspace: str, session: str, user: str, aim: Aim) -> Owner | None:
    """Return whose the chat is that the host's plugin named a session after."""
    if not (told := _CHAT.fullmatch(session)):
        return None
    profile, platform, chat_type, chat = told.groups(default="")
    is_dm = chat_of_type(chat_type) is Chat.DM
    return aim.heard(
        name=workspace,
        platform=platform,
        chat_type=chat_type,
        user=user if is_dm and is_contact(user) else "",
        chat=chat,
        key=f"agent:{profile}:{platform}:{chat_type}:{chat}",
    )


def _conclusion(said: Message, partner: Owner | None, aim: Aim) -> Item:
    """Return what was concluded about somebody.

    Args:
        said: The conclusion.
        partner: Whose all sessions are in which that peer said something, if it is one.
        aim: Where it goes.
    """
    observed = said["observed_id"]
    about_agent = observed in aim.assistants
    user = "" if about_agent else observed
    workspace, session = text(said.get("workspace_id")), text(said.get("session_id"))
    owner = _chat(workspace, session, user, aim)
    if owner is None and partner and partner[1] and not (about_agent or session):
        owner = partner
    return entry(
        owner or aim.owner(name=workspace, user=user, key=session),
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


def _session(
    name: str, messages: Sequence[Message], owner: Owner, aim: Aim
) -> Iterator[Item]:
    room = room_of(owner, name, aim=aim)
    at = first_moment(messages[0], "created_at") or datetime.now(UTC)
    yield from turns([*_told(messages, aim)], room=room, at=at, source=NAME)


def _told(messages: Sequence[Message], aim: Aim) -> Iterator[dict[str, Any]]:
    for message in messages:
        at = first_moment(message, "created_at")
        yield {
            "role": "assistant" if message["peer_id"] in aim.assistants else "user",
            "content": message.get("content"),
            "timestamp": at and at.timestamp(),
        }
