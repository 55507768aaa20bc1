"""The steps from vector to halfvec; `maintenance.convert` decides when each is due.

A conversion needs the tables' owner, and a connection that is not in a pool: some
steps are no transaction. Every step may be cut off, and done again.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg import errors as pg

from hermes_pgmemory.store import online, runlog
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.steps import Done, Place
from hermes_pgmemory.store.upkeep import NAMED, NAMES, Table

_SURVEY: Final[dict[tuple[Table, bool], LiteralString]] = {
    (Table.ENTRIES, False): QUERIES["survey_entries"],
    (Table.TURNS, False): QUERIES["survey_turns"],
    (Table.ENTRIES, True): QUERIES["survey_begun_entries"],
    (Table.TURNS, True): QUERIES["survey_begun_turns"],
}
_FILL: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["convert_entries"],
    Table.TURNS: QUERIES["convert_turns"],
}
_DROP_INDEX: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["drop_index_entries"],
    Table.TURNS: QUERIES["drop_index_turns"],
}
_CREATE_INDEX: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["create_index_entries"],
    Table.TURNS: QUERIES["create_index_turns"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """How far one table is."""

    table: Table
    converted: bool
    """Whether it holds halfvec already."""
    begun: bool
    """Whether an earlier run was cut off here."""
    waiting: int
    """Vectors that have no counterpart yet."""
    unfit: int
    """Those of them that may hold a component beyond a 16-bit float."""


class Conversion:
    """One run, on the connection of the tables' owner."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        """Act on *conn*, which is in autocommit mode."""
        self._conn = conn

    def survey(self) -> list[Survey]:
        """Look at both tables, entries first. Reads every vector."""
        found: list[Survey] = []
        for name, kind, begun in self._conn.execute(QUERIES["conversion_state"]):
            table = NAMED[name]
            waiting, unfit = 0, 0
            if kind == "vector":
                row = self._conn.execute(_SURVEY[table, begun]).fetchall()[0]
                waiting, unfit = row[0], row[1]
            found.append(
                Survey(
                    table=table,
                    converted=kind != "vector",
                    begun=begun,
                    waiting=waiting,
                    unfit=unfit,
                )
            )
        return found

    def begin(self, table: Table) -> None:
        """Add the second column, which every write fills from now on."""
        self._briefly(table, QUERIES["begin_conversion"])

    def themes(self) -> list[str]:
        """Return every theme that has rows, by name."""
        return [name for (name,) in self._conn.execute(QUERIES["stored_themes"])]

    def fill(
        self, table: Table, theme: str, *, run: int, after: Place, limit: int
    ) -> Done:
        """Fill up to *limit* rows of a theme, and add them to line *run* of the log."""
        parameters = {"theme": theme, "after_id": after.id, "limit": limit}
        with self._conn.transaction():
            row = self._conn.execute(_FILL[table], parameters).fetchall()[0]
            runlog.add_to_run(self._conn, run, affected=row[1])
        place = Place(id=row[4] or 0)
        return Done(seen=row[0], affected=row[1], dropped=0, reached=place)

    def is_complete(self, table: Table) -> bool:
        """Tell whether every vector has its counterpart, for good."""
        self._briefly(table, QUERIES["guard_conversion"])
        try:
            self._briefly(table, QUERIES["prove_conversion"])
        except pg.CheckViolation:
            return False
        return True

    def index(self, table: Table) -> None:
        """Build the index of rows without vectors anew; blocks nobody."""
        broken = [name for (name,) in self._conn.execute(QUERIES["broken_indexes"])]
        if f"ix_{NAMES[table]}_unembedded_half" in broken:
            self._conn.execute(_DROP_INDEX[table])
        self._conn.execute(_CREATE_INDEX[table])

    def finish(self, table: Table) -> None:
        """Put the second column in the first one's place."""
        self._briefly(table, QUERIES["finish_conversion"])

    def analyze(self) -> None:
        """Tell the planner of the new columns."""
        self._conn.execute(QUERIES["analyze_converted"])

    def open_run(self, table: Table) -> int:
        """Start a line of the log and return its id."""
        return runlog.open_run(self._conn, "convert", NAMES[table])

    def close_run(self, run: int) -> None:
        """Mark a line of the log as finished."""
        runlog.add_to_run(self._conn, run, details={"finished": True})

    def _briefly(self, table: Table, statements: LiteralString) -> None:
        """Do one step that needs a strong lock."""
        online.briefly(
            self._conn,
            (QUERIES["name_converted"], {"table": NAMES[table]}),
            (statements, None),
        )


@contextmanager
def opened(dsn: str) -> Generator[Conversion]:
    """Open a database for one conversion; raises what `online.opened` does."""
    with online.opened(dsn, "convert") as conn:
        yield Conversion(conn)
