"""What a recall is asked for, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

from hermes_pgmemory.models import EntryHit, TurnHit
from hermes_pgmemory.recall import Answer

HitT = TypeVar("HitT", EntryHit, TurnHit)
Moment = str | datetime
"""A day (`2026-05-03`), a month, a year, or a time; UTC without an offset."""


class Found(list[HitT]):
    """What a recall found, best first: a list that also says what it lacks."""

    def __init__(self, hits: Iterable[HitT], degraded: str | None = None) -> None:
        """Hold *hits*, and in one line what is missing from them."""
        super().__init__(hits)
        self.degraded = degraded
        """What could not be asked, such as the embedding model; None if nothing."""


def facets(
    since: Moment | None, until: Moment | None, platform: str | None
) -> dict[str, Any]:
    """Return what narrows a recall, as the tools take it."""
    return {"since": _iso(since), "until": _iso(until), "platform": platform}


def _iso(moment: Moment | None) -> str | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment


def told(answer: Answer[HitT]) -> Found[HitT]:
    """Return what was found.

    Raises:
        PgMemoryError: Nothing could be searched at all.
    """
    if answer.failure is not None:
        raise answer.failure
    return Found(answer.hits, answer.degraded)
