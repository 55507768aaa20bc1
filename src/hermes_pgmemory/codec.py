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


_dump = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


def _moment(value: datetime) -> str:
    return repr(value.timestamp())


def _object(value: Mapping[str, object]) -> str:
    pairs = [f"{quoted(key)}:{_spelled(item)}" for key, item in value.items()]
    return "{" + ",".join(pairs) + "}"


def _spelled(value: object) -> str:
    # `json` alone takes longer to set out than to spell a text.
    return quoted(value) if type(value) is str else _dump(value)


_SPELLERS: Final[dict[str, Callable[[Any], str]]] = {
    **dict.fromkeys(("str", "str | None", "Theme", "Subject | None"), quoted),
    **dict.fromkeys(("Role", "Target", "AgentKind"), quoted),
    "int": int.__repr__,
    "datetime": _moment,
    "Metadata": _object,
}
"""By what a field is declared to hold; `_spelled` spells whatever else there may be."""


def _encoder(kind: type[Write]) -> Callable[[Any], str]:
    """Return a function that spells a write of *kind*, as `encode` does.

    It is made as `dataclasses` makes `__init__`, one line for each field: a hook waits
    for it, and a loop over the fields takes half as long again.
    """
    begin = f'{{"w":{quoted(_TAGS[kind])}'
    known: dict[str, Any] = {}
    lines = ["def spell(write):", f"    text = {begin!r}"]
    for spec in fields(kind):
        name, default = spec.name, _default(spec)
        known |= {f"{name}_spelled": _SPELLERS.get(f"{spec.type}", _spelled)}
        known |= {f"{name}_default": default}
        add = f"text += {f',{quoted(name)}:'!r} + {name}_spelled(write.{name})"
        if default is not MISSING:
            add = f"if write.{name} != {name}_default: {add}"
        lines.append(f"    {add}")
    lines.append("    return text + '}'")
    exec("\n".join(lines), known)  # noqa: S102 - made of the names of fields alone
    return known["spell"]


_ENCODERS: Final = {kind: _encoder(kind) for kind in _TAGS}


def encode(write: Write) -> str:
    """Return *write* as one line of ASCII JSON."""
    return _ENCODERS[type(write)](write)


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
