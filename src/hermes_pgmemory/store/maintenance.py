"""What an operator does to a database now and then, in bounded parts.

Each call is one transaction that does one part of one theme and says how far it
came. Without a run to add to, the very same statements are rolled back: a rehearsal
counts exactly what the real run would have done at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, LiteralString

import psycopg

from hermes_pgmemory.store import failures, runlog, stats
from hermes_pgmemory.store.connection import BoundedConnection, Database
from hermes_pgmemory.store.history import History
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.runlog import LoggedRun
from hermes_pgmemory.store.stats import TableSize
from hermes_pgmemory.store.steps import Done, Place
from hermes_pgmemory.store.upkeep import Table


class Part(StrEnum):
    """What `remap` moves, step by step."""

    ENTRIES = "entries"
    HISTORY = "history"
    TURNS = "turns"
    AGENTS = "agents"
    EDGES = "edges"
    EDGE_CHILDREN = "edge_children"


class Aged(StrEnum):
    """What `prune` deletes by age."""

    TURNS = "turns"
    RETIRED = "retired"
    """Entries that no file holds any more."""
    HISTORY = "history"
    """What entries said before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Untidy:
    """A row to delete, and the row that stays in its place; itself, if blank."""

    id: int
    kept: int


_WAITING: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["waiting_entries"],
    Table.TURNS: QUERIES["waiting_turns"],
}
_UNTIDY: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["untidy_entries"],
    Table.TURNS: QUERIES["untidy_turns"],
}
_TIDY: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["tidy_entries"],
    Table.TURNS: QUERIES["tidy_turns"],
}
_PRUNE: Final[dict[Aged, LiteralString]] = {
    Aged.TURNS: QUERIES["prune_turns"],
    Aged.RETIRED: QUERIES["prune_retired"],
    Aged.HISTORY: QUERIES["prune_history"],
}
_REMAP: Final[dict[Part, LiteralString]] = {
    Part.ENTRIES: QUERIES["remap_entries"],
    Part.HISTORY: QUERIES["remap_history"],
    Part.TURNS: QUERIES["remap_turns"],
    Part.AGENTS: QUERIES["remap_agents"],
    Part.EDGES: QUERIES["remap_edges"],
    Part.EDGE_CHILDREN: QUERIES["remap_edge_children"],
}


class Maintenance:
    """The operator's view of one database. Raises what `Store` raises.

    A method that changes rows takes the *run* whose line of the log it adds to, in
    its own transaction, so that the log is right however a run ends; None rehearses.
    """

    def __init__(self, database: Database) -> None:
        """Act on *database*, which its owner closes."""
        self._database = database

    # -- looking -------------------------------------------------------------

    def themes(self, *, timeout_s: float) -> list[str]:
        """Return every theme that has entries or turns, by name."""
        rows = self._fetch(QUERIES["stored_themes"], {}, timeout_s)
        return [theme for (theme,) in rows]

    def sizes(self, *, timeout_s: float) -> list[TableSize]:
        """Measure our tables, largest first."""
        with self._database.transaction(timeout_s) as conn:
            return stats.sizes(conn)

    def last_runs(self, *, limit: int, timeout_s: float) -> list[LoggedRun]:
        """Return the latest lines of the log, latest first."""
        with self._database.transaction(timeout_s) as conn:
            return runlog.last_runs(conn, limit)

    def waiting(
        self, table: Table, *, theme: str | None, timeout_s: float
    ) -> tuple[int, int]:
        """Count the rows that wait for a vector; also return the last one's id."""
        return self._fetch(_WAITING[table], {"theme": theme}, timeout_s)[0][:2]

    @property
    def history(self) -> History:
        """What entries said before they were changed."""
        return History(self._database)

    def untidy(self, table: Table, *, theme: str, timeout_s: float) -> list[Untidy]:
        """Find what `tidy` deletes. Reads the whole theme; locks nothing."""
        rows = self._fetch(_UNTIDY[table], {"theme": theme}, timeout_s)
        return [Untidy(id=row, kept=kept) for row, kept in rows]

    # -- the log -------------------------------------------------------------

    def open_run(
        self,
        operation: str,
        table: str | None,
        *,
        pattern: str | None,
        details: Mapping[str, Any],
        timeout_s: float,
    ) -> int:
        """Start a line of the log and return its id."""
        with self._database.transaction(timeout_s) as conn:
            return runlog.open_run(
                conn, operation, table, pattern=pattern, details=details
            )

    def add_to_run(
        self,
        run: int,
        *,
        affected: int = 0,
        details: Mapping[str, Any],
        timeout_s: float,
    ) -> None:
        """Add to a line of the log what was done elsewhere."""
        with self._database.transaction(timeout_s) as conn:
            runlog.add_to_run(conn, run, affected=affected, details=details)

    # -- changing ------------------------------------------------------------

    def newest_turns(self, theme: str, *, rows: int, timeout_s: float) -> Place | None:
        """Return where the *rows* newest turns of a theme begin; None: it has fewer."""
        asked = {"theme": theme, "rows": rows}
        for at, row in self._fetch(QUERIES["turns_beyond"], asked, timeout_s):
            return Place(at=at, id=row + 1)
        return None

    def prune(
        self,
        theme: str,
        *,
        aged: Aged = Aged.TURNS,
        before: Place,
        after: Place,
        limit: int,
        run: int | None,
        timeout_s: float,
    ) -> Done:
        """Delete up to *limit* of a theme's rows whose place lies *before* one."""
        parameters = {
            "theme": theme,
            "before": before.at,
            "before_id": before.id,
            "after_at": after.at,
            "after_id": after.id,
            "limit": limit,
        }
        return self._change(
            lambda conn: _done(conn, _PRUNE[aged], parameters), run, timeout_s
        )

    def tidy(
        self,
        table: Table,
        theme: str,
        rows: Sequence[Untidy],
        *,
        run: int | None,
        timeout_s: float,
    ) -> Done:
        """Delete *rows*, but for those that are no longer superfluous."""
        parameters = {
            "theme": theme,
            "ids": [row.id for row in rows],
            "kept": [row.kept for row in rows],
        }

        def work(conn: BoundedConnection) -> Done:
            if table is Table.ENTRIES:
                conn.execute(QUERIES["lock_theme"], {"theme": theme})
            return _done(conn, _TIDY[table], parameters)

        return self._change(work, run, timeout_s)

    def may_tidy_positions(self, *, timeout_s: float) -> bool:
        """Tell whether this role may do that; an agent's role need not."""
        return self._fetch(QUERIES["may_tidy_positions"], {}, timeout_s)[0][0]

    def tidy_positions(
        self, theme: str | None, *, before: datetime, run: int | None, timeout_s: float
    ) -> Done:
        """Forget the positions of journals that were last applied before an instant."""
        parameters = {"theme": theme, "before": before}
        return self._change(
            lambda conn: _done(conn, QUERIES["tidy_positions"], parameters),
            run,
            timeout_s,
        )

    def remap(
        self,
        part: Part,
        old: str,
        new: str,
        *,
        kind: str,
        after: Place,
        limit: int,
        run: int | None,
        timeout_s: float,
    ) -> Done:
        """Move up to *limit* rows of theme *old* to theme *new*.

        What *new* has already is merged: the older time stays, and no vector is lost.
        *kind* is the new theme's, should the registry not know it.
        """
        parameters = {
            "old": old,
            "new": new,
            "after_id": after.id,
            "limit": limit,
            "kind": kind,
        }

        def work(conn: BoundedConnection) -> Done:
            # The writers of entries queue in the same order: by name.
            if part is Part.ENTRIES:
                for theme in sorted((old, new)):
                    conn.execute(QUERIES["lock_theme"], {"theme": theme})
            return _done(conn, _REMAP[part], parameters)

        return self._change(work, run, timeout_s)

    def _change(
        self,
        work: Callable[[BoundedConnection], Done],
        run: int | None,
        timeout_s: float,
    ) -> Done:
        """Do one part, or all but commit it; again where a writer was in the way."""
        return failures.retried(lambda: self._change_once(work, run, timeout_s))

    def _change_once(
        self,
        work: Callable[[BoundedConnection], Done],
        run: int | None,
        timeout_s: float,
    ) -> Done:
        outcome: list[Done] = []
        with self._database.transaction(timeout_s) as conn:
            outcome.append(work(conn))
            if run is None:
                raise psycopg.Rollback
            runlog.add_to_run(
                conn, run, affected=outcome[0].affected, dropped=outcome[0].dropped
            )
        return outcome[0]

    def _fetch(
        self, query: LiteralString, parameters: Mapping[str, Any], timeout_s: float
    ) -> list[tuple[Any, ...]]:
        with self._database.transaction(timeout_s) as conn:
            return conn.execute(query, parameters).fetchall()


def _done(
    conn: BoundedConnection, query: LiteralString, parameters: Mapping[str, Any]
) -> Done:
    seen, affected, dropped, at, row = conn.execute(query, parameters).fetchall()[0]
    return Done(
        seen=seen,
        affected=affected,
        dropped=dropped,
        reached=Place(id=row or 0, at=at),
    )
