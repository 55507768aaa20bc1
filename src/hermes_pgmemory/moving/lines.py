"""Our own format, JSON Lines: a header, one row a line, then how many there were.

Times are UTC to the microsecond. A field that has no value is left out. Versions count
up when a reader of the one before would misread the file; a new field is no reason.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any, Final, assert_never, cast

from hermes_pgmemory.foreign_json import parsed
from hermes_pgmemory.models import (
    AddEntry,
    AddTurn,
    AgentKind,
    RecordDelegation,
    Role,
    SeeAgent,
    Subject,
    Target,
    Theme,
)
from hermes_pgmemory.moving.header import at_of, dump, spell, text_of
from hermes_pgmemory.store.moved import (
    Moved,
    MovedAgent,
    MovedEdge,
    MovedEntry,
    MovedTurn,
)

_DAMAGE: Final = (KeyError, TypeError, AttributeError, struct.error, OverflowError)
"""What a line that `encode` never wrote may raise, besides ValueError: the last by a
number without end."""


def encode(row: Moved) -> str:
    """Return *row* as one line, without its end."""
    match row:
        case MovedEntry():
            return dump(_entry(row))
        case MovedTurn():
            return dump(_turn(row))
        case MovedEdge():
            return dump(_edge(row))
        case MovedAgent():
            return dump(_agent(row))
        case _:
            assert_never(row)


def ending(rows: int) -> str:
    """Return the last line: a file without it was cut off."""
    return dump({"row": "end", "rows": rows})


def decode(line: str) -> Moved | int:
    """Return the row that `encode` made a line from, or the number of the last line.

    Raises:
        ValueError: It is damaged.
    """
    try:
        said: Any = parsed(line)
        match said["row"]:
            case "entry":
                return _to_entry(said)
            case "turn":
                return _to_turn(said)
            case "delegation":
                return _to_edge(said)
            case "agent":
                return _to_agent(said)
            case "end":
                return int(said["rows"])
            case _:
                raise ValueError("a row of no kind that is known here")
    except _DAMAGE as exc:
        raise ValueError(f"{type(exc).__name__} in it") from exc


def _entry(row: MovedEntry) -> Mapping[str, Any]:
    add = row.write
    return {
        "row": "entry",
        "theme": add.theme,
        "target": add.target.value,
        "content": add.content,
        "subject": add.subject,
        "source": add.source,
        "created_at": spell(add.at),
        "updated_at": spell(row.updated_at),
        "retired_at": row.retired_at and spell(row.retired_at),
        "metadata": dict(add.metadata),
        "files": list(row.files) or None,
        "missing_from": list(row.missing_from) or None,
        "embedding": row.vector and _pack(row.vector),
    }


def _to_entry(said: Mapping[str, Any]) -> MovedEntry:
    retired = said.get("retired_at")
    return MovedEntry(
        write=AddEntry(
            theme=Theme(text_of(said["theme"])),
            subject=_subject(said),
            target=Target(said["target"]),
            content=text_of(said["content"]),
            at=at_of(said["created_at"]),
            source=_maybe(said, "source"),
            metadata=_object(said, "metadata"),
        ),
        updated_at=at_of(said["updated_at"]),
        retired_at=None if retired is None else at_of(retired),
        files=_texts(said, "files"),
        missing_from=_texts(said, "missing_from"),
        vector=_unpack(said.get("embedding")),
    )


def _turn(row: MovedTurn) -> Mapping[str, Any]:
    turn = row.write
    return {
        "row": "turn",
        "theme": turn.theme,
        "session_id": turn.session_id,
        "parent_session_id": turn.parent_session_id,
        "role": turn.role.value,
        "content": turn.content,
        "ordinal": turn.ordinal,
        "turn_key": row.key and row.key.hex(),
        "ts": spell(turn.at),
        "subject": turn.subject,
        "embed": turn.embed,
        "metadata": dict(turn.metadata),
        "text_hash": row.text_hash and row.text_hash.hex(),
        "embedding": row.vector and _pack(row.vector),
    }


def _to_turn(said: Mapping[str, Any]) -> MovedTurn:
    return MovedTurn(
        write=AddTurn(
            theme=Theme(text_of(said["theme"])),
            subject=_subject(said),
            session_id=text_of(said["session_id"]),
            parent_session_id=_maybe(said, "parent_session_id"),
            role=Role(said["role"]),
            content=text_of(said["content"]),
            ordinal=int(said["ordinal"]),
            at=at_of(said["ts"]),
            embed=bool(said["embed"]),
            metadata=_object(said, "metadata"),
        ),
        key=_bytes(said.get("turn_key")),
        text_hash=_bytes(said.get("text_hash")),
        vector=_unpack(said.get("embedding")),
    )


def _edge(row: MovedEdge) -> Mapping[str, Any]:
    edge = row.write
    return {
        "row": "delegation",
        "theme": edge.theme,
        "child_theme": row.child,
        "parent_session_id": edge.parent_session_id,
        "child_session_id": edge.child_session_id,
        "kind": row.kind,
        "task": edge.task,
        "subject": edge.subject,
        "ts": spell(edge.at),
        "metadata": dict(edge.metadata),
    }


def _to_edge(said: Mapping[str, Any]) -> MovedEdge:
    return MovedEdge(
        write=RecordDelegation(
            theme=Theme(text_of(said["theme"])),
            subject=_subject(said),
            parent_session_id=text_of(said["parent_session_id"]),
            child_session_id=text_of(said["child_session_id"]),
            task=text_of(said["task"]),
            at=at_of(said["ts"]),
            metadata=_object(said, "metadata"),
        ),
        child=_maybe(said, "child_theme"),
        kind=text_of(said["kind"]),
    )


def _agent(row: MovedAgent) -> Mapping[str, Any]:
    return {
        "row": "agent",
        "theme": row.write.theme,
        "kind": row.write.kind.value,
        "first_seen": spell(row.first_seen),
        "last_seen": spell(row.write.at),
        "attrs": dict(row.attrs),
    }


def _to_agent(said: Mapping[str, Any]) -> MovedAgent:
    return MovedAgent(
        write=SeeAgent(
            theme=Theme(text_of(said["theme"])),
            kind=AgentKind(said["kind"]),
            at=at_of(said["last_seen"]),
        ),
        first_seen=at_of(said["first_seen"]),
        attrs=_object(said, "attrs"),
    )


def _subject(said: Mapping[str, Any]) -> Subject | None:
    subject = _maybe(said, "subject")
    return None if subject is None else Subject(subject)


def _maybe(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    return None if value is None else text_of(value)


def _texts(said: Mapping[str, Any], name: str) -> list[str]:
    values: object = said.get(name) or []
    if not isinstance(values, list):
        raise TypeError("not a list")
    return [text_of(one) for one in cast("list[object]", values)]


def _object(said: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = said[name]
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return cast("dict[str, Any]", value)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _pack(vector: Any) -> str:
    """Spell a vector: little-endian 32-bit floats in Base64."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _unpack(text: str | None) -> list[float] | None:
    if text is None:
        return None
    packed = base64.b64decode(text, validate=True)
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))
