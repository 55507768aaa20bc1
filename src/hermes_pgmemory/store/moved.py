"""Rows with all that is theirs, also what no write can tell of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hermes_pgmemory.models import (
    AddEntry,
    AddTurn,
    RecordDelegation,
    SeeAgent,
    Vector,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedEntry:
    """An entry; `write.at` is when it was first noted."""

    write: AddEntry
    updated_at: datetime
    retired_at: datetime | None = None
    files: Sequence[str] = ()
    missing_from: Sequence[str] = ()
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedTurn:
    """A turn."""

    write: AddTurn
    key: bytes | None = None
    """Its key, where that does not follow from what was written."""
    text_hash: bytes | None = None
    """What its vector stands for."""
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedEdge:
    """A delegation."""

    write: RecordDelegation
    child: str | None = None
    """Whom it went to, where that is known."""
    kind: str = "delegated"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedAgent:
    """A theme's line of the registry; `write.at` is when it was last seen."""

    write: SeeAgent
    first_seen: datetime
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])


Moved = MovedEntry | MovedTurn | MovedEdge | MovedAgent
