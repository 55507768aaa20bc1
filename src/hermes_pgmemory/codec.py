"""Writes as text, for the journal.

One JSON object per write: a tag that names the kind, and the fields that differ
from their defaults. A journal may be read by a later version of this package, so
unknown tags and fields are an error here and a dead letter there, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii as quoted
from operator import attrgetter
from typing import Any, Final

from hermes_pgmemory.errors import UnstorableWrite
from hermes_pgmemory.models import (
    AddEntry,
    AddTurn,
    AgentKind,
    RecordDelegation,
    RemoveEntry,
    ReplaceEntry,
    Role,
    SeeAgent,
    Target,
    Write,
)

_KINDS: Final[dict[str, type[Write]]] = {
    "add": AddEntry,
    "replace": ReplaceEntry,
    "remove": RemoveEntry,
    "turn": AddTurn,
    "delegation": RecordDelegation,
    "agent": SeeAgent,
}
_TAGS: Final = {kind: tag for tag, kind in _KINDS.items()}
ENTRY_RECORDS: Final = tuple(f'{{"w":"{tag}",' for tag in ("add", "replace", "remove"))
"""How the text of a write to a memory entry begins."""
_PARSERS: Final[dict[str, Callable[[Any], Any]]] = {
    "at": lambda value: datetime.fromtimestamp(value, UTC),
    "target": Target,
    "role": Role,
    "kind": AgentKind,
}


def _default(spec: Field[Any]) -> object:
    if spec.default_factory is not MISSING:
        return spec.default_factory()
    return spec.default


_SHAPES: Final = {
    kind: (
        f'{{"w":{quoted(tag)}',
        attrgetter(*(spec.name for spec in fields(kind))),
        [(f",{quoted(spec.name)}:", _default(spec)) for spec in fields(kind)],
    )
    for kind, tag in _TAGS.items()
}
"""By kind: how its text begins, what reads its fields, and how each of these begins
and what it is by default. All set out once: a hook waits for the rest."""
_dump = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


def _object(value: Mapping[str, object]) -> str:
    pairs = [f"{quoted(key)}:{_spelled(item)}" for key, item in value.items()]
    return "{" + ",".join(pairs) + "}"


_SPELLINGS: Final[dict[type, Callable[[Any], str]]] = {
    Role: quoted,
    Target: quoted,
    AgentKind: quoted,
    int: int.__repr__,
    datetime: lambda value: repr(value.timestamp()),
    dict: _object,
}
"""How the usual values are spelled; `json` alone takes longer to set out than to do it,
and a hook waits for it."""


def _spelled(value: object) -> str:
    # Most values are texts: those skip the table.
    if type(value) is str:
        return quoted(value)
    return _SPELLINGS.get(type(value), _dump)(value)


def encode(write: Write) -> str:
    """Return *write* as one line of ASCII JSON."""
    text, values_of, specs = _SHAPES[type(write)]
    for value, (name, default) in zip(values_of(write), specs, strict=True):
        if value != default:
            text += name + _spelled(value)
    return text + "}"


def tag_of(write: Write) -> str:
    """Return the tag of *write*'s kind, like "add" or "turn"."""
    return _TAGS[type(write)]


def decode(text: str) -> Write:
    """Return the write that `encode` made *text* from.

    Raises:
        UnstorableWrite: *text* is damaged, or from a newer version.
    """
    try:
        record: dict[str, Any] = json.loads(text)
        kind = _KINDS[record.pop("w")]
        for name, parser in _PARSERS.items():
            if name in record:
                record[name] = parser(record[name])
        return kind(**record)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as exc:
        raise UnstorableWrite(
            f"journal record is not readable by this version ({type(exc).__name__})"
        ) from exc
