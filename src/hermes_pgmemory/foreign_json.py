"""JSON that others wrote: a document may be no JSON, or nest without measure.

Python's reader, its writer and whoever walks through what was read give up somewhere
below a thousand levels, each elsewhere. So the measure is taken once, on the way in.
"""

from __future__ import annotations

import json
import re
from typing import Final, cast

MAX_LEVELS: Final = 100
"""How deep lists and objects may lie in each other; what people write has ten."""

_MARK: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}\n]')


class TooDeepError(ValueError):
    """A document that nests too deeply to be read."""

    def __init__(self, line: int, levels: int) -> None:
        """Say in which *line*, counted from 1, it nests more than *levels* deep."""
        super().__init__(f"nests more than {levels} levels deep in line {line}")
        self.line = line


def parsed(text: str | bytes, *, levels: int = MAX_LEVELS) -> object:
    """Return the value of a JSON document.

    Raises:
        TooDeepError: It nests more than *levels* deep.
        ValueError: It is no JSON.
    """
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise TooDeepError(_line_of_depth(text, levels), levels) from None
    if _is_too_deep(value, levels):
        raise TooDeepError(_line_of_depth(text, levels), levels)
    return value


def _is_too_deep(value: object, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        level = [part for one in level for part in _parts(one)]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


def _parts(value: object) -> list[object]:
    """Return the lists and objects in *value*."""
    if isinstance(value, dict):
        inside = cast("dict[str, object]", value).values()
    elif isinstance(value, list):
        inside = cast("list[object]", value)
    else:
        return []
    return [part for part in inside if isinstance(part, dict | list)]


def _line_of_depth(text: str | bytes, levels: int) -> int:
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "replace")
    line, depth = 1, 0
    for found in _MARK.finditer(text):
        mark = found[0]
        line += mark == "\n"
        depth += (mark in "[{") - (mark in "]}")
        if depth > levels:
            break
    return line
