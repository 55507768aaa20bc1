"""JSON documents of others, whatever they wrap their items in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.foreign_json import MAX_LEVELS, TooDeepError, parsed

_WRAPPED: Final = (
    *("results", "items", "memories", "messages", "conclusions", "observations"),
    *("documents", "facts"),
)
_SAYS: Final = ("memory", "data", "text", "content", "payload")
"""Where what somebody says is; what has one of these is no wrapping."""


def items(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a JSON document, of several, or of JSON Lines.

    Raises:
        BadRequest: It is none of these.
    """
    if not path.is_file():
        raise BadRequest(f"{path} is no file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as exc:
        raise BadRequest(f"{path} is not UTF-8") from exc
    found = list(_objects(_parsed(path, text)))
    if not found:
        raise BadRequest(f"{path} holds no JSON objects")
    yield from found


def _parsed(path: Path, text: str) -> object:
    number = 1
    try:
        with suppress(json.JSONDecodeError):
            return parsed(text)
        found: list[object] = []
        for number, line in enumerate(text.split("\n"), 1):  # noqa: B007 - told below
            if line.strip():
                found.append(parsed(line))
    except TooDeepError as exc:
        number = max(number, exc.line)
        raise BadRequest(
            f"{path} nests more than {MAX_LEVELS} levels deep in line {number}"
        ) from None
    except json.JSONDecodeError as exc:
        raise BadRequest(f"{path} is neither JSON nor JSON Lines") from exc
    return found


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _objects(one)
    elif isinstance(value, dict):
        said = cast("dict[str, Any]", value)
        lists = [said[name] for name in _WRAPPED if isinstance(said.get(name), list)]
        if lists and not any(name in said for name in _SAYS):
            yield from _objects(lists)
        else:
            yield said


def mapping(value: object) -> Mapping[str, Any]:
    """Return *value* if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def text(value: object) -> str:
    """Return *value* if it is a text, else ""."""
    return value if isinstance(value, str) else ""
