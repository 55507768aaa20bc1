"""Past conversations, from the host's own `state.db`.

A session is told as the host would tell it at its end, through the very same code as a
live one: whatever an agent has kept of it is there already.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.foreign_json import parsed
from hermes_pgmemory.moving import sqlite
from hermes_pgmemory.moving.homes import Found, homes
from hermes_pgmemory.moving.turns import turns
from hermes_pgmemory.moving.values import WORKSPACE, Aim, Item, Skipped, moment
from hermes_pgmemory.session import Session
from hermes_pgmemory.subjects import Veil
from hermes_pgmemory.turn_ledger import TurnLedger

DATABASE: Final = "state.db"
NAME: Final = "sessions"
UNHEARD: Final = frozenset({"cron", "curator", "subagent"})
"""What the host itself runs without a memory provider."""
NOBODYS: Final = (
    "an API session, whose theme the host does not note: name it by --theme"
)

_JSON: Final = "\x00json:"
"""What the host puts before a content of several parts."""
_RECALLED: Final = re.compile(
    r"<\s*memory-context\s*>.*?</\s*memory-context\s*>", re.DOTALL | re.IGNORECASE
)
_SESSION: Final = (
    "id",
    "source",
    "user_id",
    "session_key",
    "chat_id",
    "chat_type",
    "origin_json",
    "parent_session_id",
    "started_at",
)
_MESSAGE: Final = ("id", "role", "content", "timestamp", "active", "compacted")


def read(paths: Sequence[Path], aim: Aim) -> Iterator[Item]:
    """Yield the turns of every session in every `state.db` below *paths*."""
    found = False
    for home in homes(paths, aim):
        file = home.paths.home / DATABASE
        if file.is_file():
            found = True
            with closing(sqlite.opened(file, ("sessions", "messages"))) as db:
                yield from _sessions(db, home, aim)
    if not found:
        raise BadRequest(f"no {DATABASE} and no profiles/*/{DATABASE}")


def _sessions(db: sqlite3.Connection, home: Found, aim: Aim) -> Iterator[Item]:
    theme = home.theme(aim)
    for told in sqlite.rows(db, "sessions", _SESSION, order="started_at, id"):
        source = str(told["source"] or "cli")
        if source in UNHEARD:
            why = f"the host keeps no memory of {source} sessions"
            yield Skipped(theme, "turns", why)
        elif source == "api_server" and not (told["session_key"] or aim.theme):
            yield Skipped("", "turns", NOBODYS)
        else:
            yield from _turns(db, told, home, aim)


def _turns(
    db: sqlite3.Connection, told: Mapping[str, Any], home: Found, aim: Aim
) -> Iterator[Item]:
    session = Session.begin(str(told["id"]), _kwargs(told, home, aim))
    veil = Veil(bytes.fromhex(aim.key), is_final=True)
    session = session.behind(veil)
    if session.is_sealed:  # the home has not met the database yet
        session = session.unsealed(veil)
    if not session.may_write:
        why = "plugins.pgvector.write_contexts leaves it out"
        yield Skipped(session.speaker.theme, "turns", why)
        return
    room = session.room(TurnLedger())
    started = moment(told["started_at"]) or datetime.now(UTC)
    yield from turns(_messages(db, told["id"]), room=room, at=started, source=NAME)


def _kwargs(told: Mapping[str, Any], home: Found, aim: Aim) -> dict[str, Any]:
    """Return what the host's `initialize` was told, as far as it noted that."""
    governing, _ = aim.settings_of(home.paths.home)
    return {
        "hermes_home": str(governing),
        "platform": told["source"] or "cli",
        "agent_context": "primary",
        "agent_identity": aim.theme or home.profile,
        "agent_workspace": WORKSPACE,
        "gateway_session_key": told["session_key"],
        "parent_session_id": told["parent_session_id"],
        "chat_id": told["chat_id"],
        "chat_type": told["chat_type"],
        "user_id": told["user_id"],
        "user_id_alt": _origin(told["origin_json"]).get("user_id_alt"),
    }


def _origin(text: object) -> Mapping[str, Any]:
    try:
        origin = parsed(text) if isinstance(text, str) else None
    except ValueError:
        origin = None
    return cast("dict[str, Any]", origin) if isinstance(origin, dict) else {}


def _messages(db: sqlite3.Connection, session_id: object) -> list[dict[str, Any]]:
    """Return what was said, once: a compaction writes what it keeps a second time.

    What the user took back is left out; what a compaction summed up is not.
    """
    messages: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sqlite.rows(
        db, "messages", _MESSAGE, where="session_id = ?", value=session_id, order="id"
    ):
        if row["active"] == 0 and not row["compacted"]:
            continue
        said = (row["role"], row["content"], row["timestamp"])
        content = _content(row["content"])
        message = {"role": row["role"], "content": content}
        messages.setdefault(said, message | {"timestamp": row["timestamp"]})
    return list(messages.values())


def _content(stored: object) -> object:
    if not isinstance(stored, str):
        return None
    if stored.startswith(_JSON):
        try:
            return parsed(stored.removeprefix(_JSON))
        except ValueError:
            return None
    # Older hosts stored what was recalled along with the question.
    return _RECALLED.sub("", stored).strip()
