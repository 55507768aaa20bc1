"""Deleting what belongs to a contact or to a theme, for good, and looking for traces.

A row is a contact's by its `subject`, wherever it is. What is deleted could come back:
a journal may still hold it, or a batch that is being stored at this moment. So the
instant is noted first, behind a lock that waits for such batches, and whatever was said
before it is not stored any more (see `writes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, LiteralString

import psycopg

from hermes_pgmemory.store import failures, runlog
from hermes_pgmemory.store.connection import BoundedConnection, Database
from hermes_pgmemory.store.migrate import connect
from hermes_pgmemory.store.queries import QUERIES

KEPT: Final = timedelta(days=90)
"""How long it is noted that somebody was forgotten: no journal is older."""
PAGE: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mine:
    """The rows of one theme that go: all of them, or those of one contact."""

    theme: str
    subjects: tuple[str, ...] | None
    """Keyed hashes of the contact; None is the whole theme."""

    @property
    def parameters(self) -> dict[str, Any]:
        """What the statements ask for."""
        subjects = None if self.subjects is None else list(self.subjects)
        return {"theme": self.theme, "subjects": subjects}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """How many rows a contact has in a theme, by where they came from."""

    theme: str
    subject: str
    platform: str | None
    rows: int


@dataclass(frozen=True, slots=True)
class Row:
    """The text of one row, and whose it is: its theme, or the table's name."""

    owner: str
    texts: Sequence[str]


FORGET: Final[Mapping[str, LiteralString]] = {
    "memory_journal_positions": QUERIES["forget_positions"],
    "memory_entries": QUERIES["forget_entries"],
    "memory_entry_history": QUERIES["forget_history"],
    "conversations": QUERIES["forget_turns"],
    "memory_agent_edges": QUERIES["forget_edges"],
    "memory_agents": QUERIES["forget_agents"],
    "memory_maintenance_log": QUERIES["forget_log"],
}
"""In the order in which writers lock them."""

_TEXTS: Final[Sequence[LiteralString]] = (
    QUERIES["texts_of_entries"],
    QUERIES["texts_of_history"],
    QUERIES["texts_of_turns"],
    QUERIES["texts_of_edges"],
)
READ: Final[Mapping[str, LiteralString]] = {
    "memory_entries": QUERIES["read_memory_entries"],
    "memory_entry_history": QUERIES["read_memory_entry_history"],
    "conversations": QUERIES["read_conversations"],
    "memory_agent_edges": QUERIES["read_memory_agent_edges"],
    "memory_agents": QUERIES["read_memory_agents"],
    "memory_maintenance_log": QUERIES["read_memory_maintenance_log"],
    "memory_journal_positions": QUERIES["read_memory_journal_positions"],
    "memory_forgotten": QUERIES["read_memory_forgotten"],
    "memory_settings": QUERIES["read_memory_settings"],
    "memory_models": QUERIES["read_memory_models"],
    "memory_migrations": QUERIES["read_memory_migrations"],
    "pg_stats": QUERIES["read_pg_stats"],
}
"""Every table of ours with all its text columns, and the planner's samples of them."""
_VACUUM: Final[Mapping[str, LiteralString]] = {
    "memory_entries": QUERIES["vacuum_entries"],
    "memory_entry_history": QUERIES["vacuum_history"],
    "conversations": QUERIES["vacuum_turns"],
    "memory_agent_edges": QUERIES["vacuum_edges"],
}


class Forgetting:
    """The way out of one database. Raises what `Store` raises."""

    def __init__(self, database: Database) -> None:
        """Act on *database*, which its owner closes."""
        self._database = database

    # -- looking -------------------------------------------------------------

    def held(self, subjects: Sequence[str], *, timeout_s: float) -> list[Held]:
        """Return which of *subjects* have rows, and where. Reads whole tables."""
        with self._database.transaction(timeout_s) as conn:
            rows = conn.execute(QUERIES["whose_rows"], {"subjects": list(subjects)})
            return [
                Held(theme=theme, subject=subject, platform=platform, rows=count)
                for theme, subject, platform, count in rows
            ]

    def forgotten(self, subjects: Sequence[str], *, timeout_s: float) -> set[str]:
        """Return which of *subjects* were forgotten lately, to the end or not."""
        asked = {"subjects": list(subjects)}
        with self._database.transaction(timeout_s) as conn:
            rows = conn.execute(QUERIES["were_forgotten"], asked)
            return {subject for (subject,) in rows}

    def texts(self, mine: Mine, *, timeout_s: float) -> Iterator[str]:
        """Yield every text of these rows, page by page."""
        for query in _TEXTS:
            after, page = 0, [()]
            while page:
                asked = {**mine.parameters, "after": after, "limit": PAGE}
                with self._database.transaction(timeout_s) as conn:
                    page = conn.execute(query, asked).fetchall()
                yield from (text for _, text in page)
                after = page[-1][0] if page else after

    def left(self, mine: Mine, *, timeout_s: float) -> int:
        """Count the rows that these owners still have."""
        with self._database.transaction(timeout_s) as conn:
            return conn.execute(QUERIES["left_of"], mine.parameters).fetchall()[0][0]

    def rows(self, table: str, *, timeout_s: float) -> Iterator[Row]:
        """Yield all text of a table of `READ`, page by page."""
        theme, after = "", 0
        while True:
            asked = {"theme": theme, "after": after, "limit": PAGE}
            with self._database.transaction(timeout_s) as conn:
                page = conn.execute(READ[table], asked).fetchall()
            for _, owner, *texts in page:
                told = [text for text in (owner, *texts) if text]
                yield Row(owner or table, told)
            if len(page) < PAGE:
                return
            after, theme = page[-1][:2]

    # -- deleting ------------------------------------------------------------

    def note(self, owners: Sequence[Mine], *, timeout_s: float) -> None:
        """Let nothing be stored any more that these *owners* said until now."""
        pairs = {
            (mine.theme, subject)
            for mine in owners
            for subject in (("",) if mine.subjects is None else mine.subjects)
        }
        asked = {
            "themes": [theme for theme, _ in pairs],
            "subjects": [subject for _, subject in pairs],
            "kept": KEPT,
        }
        with self._database.transaction(timeout_s) as conn:
            conn.execute(QUERIES["hold_writers"])
            conn.execute(QUERIES["note_forgotten"], asked)

    def forget(
        self,
        mine: Mine,
        *,
        names: Sequence[str],
        line: int | None,
        timeout_s: float,
    ) -> dict[str, int]:
        """Delete these rows in one transaction; return how many, by table.

        Args:
            mine: Whose rows.
            names: What the log may call their owner.
            line: The run's line of the log; None rehearses.
            timeout_s: Seconds.
        """
        return failures.retried(lambda: self._forget(mine, names, line, timeout_s))

    def _forget(
        self,
        mine: Mine,
        names: Sequence[str],
        line: int | None,
        timeout_s: float,
    ) -> dict[str, int]:
        counts: dict[str, int] = {}
        with self._database.transaction(timeout_s) as conn:
            for table, query in FORGET.items():
                if table == "memory_entries":
                    conn.execute(QUERIES["lock_theme"], {"theme": mine.theme})
                counts[table] = _count(conn, query, mine, names)
            if line is None:
                raise psycopg.Rollback
            runlog.add_to_run(conn, line, affected=sum(counts.values()))
        return counts

    def vacuum(self) -> list[str]:
        """Clear the touched tables of dead rows; return those we may not.

        On a connection of its own: it cannot be part of a transaction, and takes as
        long as it takes.
        """
        refused: list[str] = []
        with connect(self._database.dsn.text) as conn:
            for table, query in _VACUUM.items():
                may = conn.execute(QUERIES["may_vacuum"], {"table": table}).fetchall()
                if may[0][0]:
                    conn.execute(query)
                else:
                    refused.append(table)
        return refused


def _count(
    conn: BoundedConnection, query: LiteralString, mine: Mine, names: Sequence[str]
) -> int:
    parameters = {**mine.parameters, "names": list(names)}
    return conn.execute(query, parameters).fetchall()[0][0]
