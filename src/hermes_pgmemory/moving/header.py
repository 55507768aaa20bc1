"""The first line of our own format, and how its values are spelled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.foreign_json import parsed
from hermes_pgmemory.moments import keepable

FORMAT: Final = "hermes-pgmemory"
VERSION: Final = 1
_FOREIGN: Final = (ValueError, KeyError, TypeError, OverflowError)
"""What a line that we did not write may raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line."""

    exported_at: datetime
    private: bool
    """Whether rows of single contacts are in it."""
    subject_key: str
    """`keys.fingerprint` of the key that their subjects are made with."""
    model: str | None = None
    """Whose vectors are in it, if any are."""
    dimension: int | None = None

    @property
    def line(self) -> str:
        """The header as text."""
        said = {
            "format": FORMAT,
            "version": VERSION,
            "exported_at": spell(self.exported_at),
            "private": self.private,
            "subject_key": self.subject_key,
            "model": self.model,
            "dimension": self.dimension,
        }
        return dump(said)

    @classmethod
    def of(cls, line: str) -> Header:
        """Read the first line of a file.

        Raises:
            BadRequest: It is no file of ours, or of a later version.
        """
        try:
            said: Any = parsed(line)
            ours, version = said["format"] == FORMAT, int(said["version"])
        except _FOREIGN:
            said, ours, version = {}, False, 0
        if version > VERSION:
            raise BadRequest(
                f"the file is of version {version}, this package reads up to {VERSION}:"
                " upgrade hermes-pgmemory"
            )
        if not ours:
            raise BadRequest("not a file of `hermes-pgvector export`")
        try:
            return cls(
                exported_at=at_of(said["exported_at"]),
                private=bool(said["private"]),
                subject_key=str(said["subject_key"]),
                model=said.get("model"),
                dimension=said.get("dimension"),
            )
        except _FOREIGN as exc:
            raise BadRequest("its first line is damaged: export it again") from exc


def dump(said: Mapping[str, Any]) -> str:
    """Return *said* as one line, without what has no value."""
    told = {key: value for key, value in said.items() if value is not None}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def spell(at: datetime) -> str:
    """Return a time as the format has it."""
    return (
        f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    )


def at_of(text: object) -> datetime:
    """Read what `spell` wrote.

    Raises:
        ValueError: It is no time, or has no zone.
        TypeError: It is no text.
    """
    at = datetime.fromisoformat(text_of(text))
    if at.tzinfo is None:
        raise ValueError("a time without its zone")
    return keepable(at)


def text_of(value: object) -> str:
    """Return *value*, which must be a text.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value
