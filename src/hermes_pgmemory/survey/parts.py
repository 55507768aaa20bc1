"""One part, as it is looked at: what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from hermes_pgmemory.errors import PgMemoryError, Unavailable

SETUP: Final = "run `hermes-pgvector setup`"


class State(StrEnum):
    """How a part is."""

    OK = "ok"
    OFF = "off"
    """Not running, and nothing is wrong with that."""
    PROBLEM = "problem"
    """An operator must change something."""
    UNAVAILABLE = "unavailable"
    """Does not answer now."""
    UNKNOWN = "unknown"
    """Cannot be told, because another part has a problem."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the whole."""

    state: State
    detail: str
    """One line for people."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The same for programs."""

    def as_data(self) -> dict[str, Any]:
        """Return what `--json` shows."""
        return {"state": self.state, "detail": self.detail, **self.facts}


def guarded(look_at: Callable[[], Part]) -> Part:
    """Look, and tell of what goes wrong as the part that it is."""
    try:
        return look_at()
    except PgMemoryError as exc:
        return failed(exc, {})


def failed(exc: PgMemoryError, facts: Mapping[str, Any]) -> Part:
    """Return a part that cannot be looked at because of *exc*."""
    state = State.UNAVAILABLE if isinstance(exc, Unavailable) else State.PROBLEM
    return Part(state, str(exc), facts)


def size(count: int) -> str:
    """Spell a number of bytes."""
    return f"{count / 1_000_000:.0f} MB"
