"""What an operator looks at: pages of rows, and what was counted.

A row that belongs to one contact comes without its text unless that is asked for, so
that the text does not leave the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg.rows import DictRow, dict_row

from hermes_pgmemory.models import Role, Target
from hermes_pgmemory.store.connection import BoundedConnection, Database
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.seen import (
    Delegation,
    EntrySeen,
    Hour,
    SessionSeen,
    SessionsSeen,
    TurnSeen,
)
from hermes_pgmemory.store.steps import FIRST, Place

LONGEST: Final = 1_200
"""Characters of a text in a list; longer ones are cut."""
WHOLE: Final = 200_000
"""Characters of a text that is looked at alone."""
LOOKED_AT: Final = 2_000
"""Turns among which a theme's recent sessions are looked for."""
BEFORE: Final = 4
"""Turns shown before the one that somebody wants to see."""


class Views:
    """An operator's views of one database. Raises what `Store` raises."""

    def __init__(self, database: Database) -> None:
        """Look at *database*, which its owner closes."""
        self._database = database

    def activity(
        self, themes: Sequence[str], *, since: datetime, timeout_s: float
    ) -> list[Hour]:
        """Count rows per theme and hour from *since*, the beginning of an hour."""
        given = {"themes": list(themes), "since": since}
        with self._database.transaction(timeout_s) as conn:
            rows = conn.execute(QUERIES["activity"], given).fetchall()
        return [Hour(theme=a, at=b, entries=c, turns=d) for a, b, c, d in rows]

    def private_rows(self, *, timeout_s: float) -> Mapping[str, int]:
        """Count the rows of each theme that belong to one contact."""
        with self._database.transaction(timeout_s) as conn:
            return dict(conn.execute(QUERIES["private_rows"]).fetchall())

    def entries(
        self,
        theme: str,
        *,
        target: Target | None,
        retired: bool | None,
        after: Place,
        limit: int,
        show_private: bool,
        timeout_s: float,
    ) -> list[EntrySeen]:
        """Return a page of a theme's entries, latest change first.

        Args:
            theme: Whose entries.
            target: Of one file alone; None for both.
            retired: Only such, or only others; None for both.
            after: Where the page before ended.
            limit: Rows at most.
            show_private: Whether to read texts that belong to a contact.
            timeout_s: Seconds.
        """
        given = {
            "theme": theme,
            "targets": [target] if target else list(Target),
            "retired": retired,
            "at": after.at,
            "id": after.id,
            "limit": limit,
            "show_private": show_private,
            "longest": LONGEST,
        }
        with self._database.transaction(timeout_s) as conn:
            return [_entry(row) for row in _rows(conn, "browse_entries", given)]

    def entry(
        self, theme: str, id_: int, *, show_private: bool, timeout_s: float
    ) -> EntrySeen | None:
        """Return one entry whole, or None."""
        given = {
            "theme": theme,
            "id": id_,
            "show_private": show_private,
            "longest": WHOLE,
        }
        with self._database.transaction(timeout_s) as conn:
            rows = _rows(conn, "look_at_entry", given)
        return _entry(rows[0]) if rows else None

    def sessions(
        self,
        theme: str,
        *,
        before: datetime | None,
        show_private: bool,
        timeout_s: float,
    ) -> SessionsSeen:
        """Return the sessions among the latest turns of a theme before a time."""
        given = {
            "theme": theme,
            "at": before,
            "show_private": show_private,
            "looked_at": LOOKED_AT,
        }
        with self._database.transaction(timeout_s) as conn:
            rows = conn.execute(QUERIES["recent_sessions"], given).fetchall()
        *_, turns, hidden, until = rows[0]
        sessions = [
            SessionSeen(id=id_, turns=count, first=first, last=last, topic=topic)
            for id_, count, first, last, topic, *_ in rows
            if id_ is not None
        ]
        return SessionsSeen(sessions=sessions, turns=turns, hidden=hidden, until=until)

    def turns(
        self,
        theme: str,
        session_id: str,
        *,
        after: Place,
        limit: int,
        show_private: bool,
        timeout_s: float,
    ) -> list[TurnSeen]:
        """Return a page of a session's turns, in the order they were said."""
        given = {
            "theme": theme,
            "session_id": session_id,
            "at": after.at,
            "id": after.id,
            "limit": limit,
            "show_private": show_private,
            "longest": LONGEST,
        }
        with self._database.transaction(timeout_s) as conn:
            return [_turn(row) for row in _rows(conn, "read_session", given)]

    def place_before(
        self, theme: str, session_id: str, turn: int, *, timeout_s: float
    ) -> Place:
        """Return from where on to read, to see a turn and a few before it."""
        given = {
            "theme": theme,
            "session_id": session_id,
            "turn": turn,
            "few": BEFORE,
        }
        with self._database.transaction(timeout_s) as conn:
            rows = conn.execute(QUERIES["before_turn"], given).fetchall()
        return Place(at=rows[0][0], id=rows[0][1]) if rows else FIRST

    def delegations(
        self,
        *,
        before: datetime | None,
        limit: int,
        show_private: bool,
        timeout_s: float,
    ) -> list[Delegation]:
        """Return the latest delegations before a time; none where none are kept."""
        given = {"at": before, "limit": limit, "show_private": show_private}
        return self._edges("delegations", given, timeout_s)

    def delegations_of(
        self,
        theme: str,
        session_id: str,
        *,
        limit: int,
        show_private: bool,
        timeout_s: float,
    ) -> list[Delegation]:
        """Return what one session delegated, and what delegated to it, by time."""
        given = {
            "theme": theme,
            "session_id": session_id,
            "limit": limit,
            "show_private": show_private,
        }
        return self._edges("delegations_of_session", given, timeout_s)

    def _edges(
        self, name: str, given: Mapping[str, Any], timeout_s: float
    ) -> list[Delegation]:
        asked = {**given, "longest": LONGEST}
        with self._database.transaction(timeout_s) as conn:
            if not conn.execute(QUERIES["has_agents"]).fetchall()[0][0]:
                return []
            return [_delegation(row) for row in _rows(conn, name, asked)]


def _rows(
    conn: BoundedConnection, name: str, given: Mapping[str, Any]
) -> list[DictRow]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(QUERIES[name], given).fetchall()


def _entry(row: DictRow) -> EntrySeen:
    row["target"] = Target(row["target"])
    return EntrySeen(**row)


def _turn(row: DictRow) -> TurnSeen:
    row["role"] = Role(row["role"])
    return TurnSeen(**row)


def _delegation(row: DictRow) -> Delegation:
    return Delegation(
        parent=row["parent_identity"],
        child=row["child_identity"],
        parent_session_id=row["parent_session_id"],
        child_session_id=row["child_session_id"],
        task=row["task"],
        private=row["private"],
        at=row["ts"],
    )
