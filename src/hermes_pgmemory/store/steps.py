"""Going through many rows in steps: where one begins, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The last row looked at; what follows begins behind it."""

    at: datetime | None = None
    id: int = 0


FIRST: Final = Place()
"""Before all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What one step came to."""

    seen: int
    """Rows looked at; fewer than asked for: there are no more."""
    affected: int
    dropped: int
    """Those of `affected` that were deleted as duplicates of a row that stays."""
    reached: Place
