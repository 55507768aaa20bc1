"""What entries said before they were replaced, removed or retired."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hermes_pgmemory.models import Metadata, Target
from hermes_pgmemory.store.connection import Database
from hermes_pgmemory.store.queries import QUERIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an entry said until it was changed."""

    entry: int
    """Its id; it may be gone."""
    target: Target
    change: str
    """replaced, removed or retired."""
    content: str
    since: datetime
    at: datetime
    metadata: Metadata
    """Where the change came from: platform, session, origin."""
    now: str | None
    """What took its place, until that changed, too."""


class History:
    """The past of one database's entries. Raises what `Store` raises."""

    def __init__(self, database: Database) -> None:
        """Read from *database*, which its owner closes."""
        self._database = database

    def exists(
        self, *, before: datetime | None = None, theme: str | None, timeout_s: float
    ) -> bool:
        """Tell whether anything is kept: of one theme or any, from before or ever."""
        asked = {"before": before, "theme": theme}
        with self._database.transaction(timeout_s) as conn:
            return conn.execute(QUERIES["has_history"], asked).fetchall()[0][0]

    def read(
        self,
        theme: str,
        *,
        subject: str | None,
        match: str | None,
        limit: int,
        timeout_s: float,
    ) -> list[Change]:
        """Return what entries of a theme said before, the latest change first.

        Those of the contact *subject*, or those that belong to nobody; with *match*,
        only texts that hold it, in whatever case.
        """
        asked = {"theme": theme, "subject": subject, "match": match, "limit": limit}
        with self._database.transaction(timeout_s) as conn:
            return [
                Change(
                    entry=entry,
                    target=Target(target),
                    change=change,
                    content=content,
                    since=since,
                    at=at,
                    metadata=metadata,
                    now=now,
                )
                for entry, target, change, content, since, at, metadata, now in (
                    conn.execute(QUERIES["read_history"], asked)
                )
            ]
