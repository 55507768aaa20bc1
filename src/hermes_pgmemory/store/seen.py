"""What an operator sees of rows, as `dashboard` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hermes_pgmemory.models import Role, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """How many rows of one theme are from one hour."""

    theme: str
    at: datetime
    entries: int
    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySeen:
    """A memory entry in any state."""

    id: int
    target: Target
    content: str | None
    """None where it belongs to a contact, and nobody decided to show it."""
    clipped: bool
    private: bool
    created_at: datetime
    updated_at: datetime
    retired_at: datetime | None
    platform: str | None
    embedded: bool
    files: int
    """How many files were seen to hold it."""
    missing: int
    """How many of these were later seen without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSeen:
    """A session, as far as it was looked at."""

    id: str
    turns: int
    first: datetime
    last: datetime
    topic: str | None
    """The beginning of what a user said first there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsSeen:
    """Sessions, latest first, and how far the look went."""

    sessions: Sequence[SessionSeen]
    turns: int
    """Turns that were looked at, see `dashboard.LOOKED_AT`."""
    hidden: int
    """Those of them that belong to a contact."""
    until: datetime | None
    """The time of the earliest of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSeen:
    """One turn of a session."""

    id: int
    role: Role
    content: str | None
    clipped: bool
    private: bool
    at: datetime
    platform: str | None
    embedded: bool
    parent_session_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """Who delegated what to whom."""

    parent: str
    child: str | None
    """None where the host did not tell."""
    parent_session_id: str
    child_session_id: str
    """Both are "" where they belong to a contact, and nobody decided to show them."""
    task: str | None
    private: bool
    at: datetime
