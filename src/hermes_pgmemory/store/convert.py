"""The steps from vector to halfvec; `maintenance.convert` decides when each is due.

A conversion needs the tables' owner, and a connection that is not in a pool: some
steps are no transaction. Every step may be cut off, and done again.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg import errors as pg
from psycopg.types.json import Jsonb

from hermes_pgmemory.errors import DatabaseUnavailable, SchemaError
from hermes_pgmemory.store import failures, migrate
from hermes_pgmemory.store.maintenance import Done, Place
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.upkeep import Table

LOCK_ATTEMPTS: Final = 30
LOCK_PAUSE_S: Final = 0.5
"""Between attempts, for the writers that queued behind the last one."""

NAMES: Final = {Table.ENTRIES: "memory_entries", Table.TURNS: "conversations"}

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
            table = next(t for t in Table if NAMES[t] == name)
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
            self._add(run, row[1], {})
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
        parameters = {
            "operation": "convert",
            "table": NAMES[table],
            "pattern": None,
            "details": Jsonb({}),
        }
        return self._conn.execute(QUERIES["open_run"], parameters).fetchall()[0][0]

    def close_run(self, run: int) -> None:
        """Mark a line of the log as finished."""
        self._add(run, 0, {"finished": True})

    def _add(self, run: int, affected: int, details: dict[str, Any]) -> None:
        parameters = {"run": run, "affected": affected, "dropped": 0}
        self._conn.execute(
            QUERIES["add_to_run"], {**parameters, "details": Jsonb(details)}
        )

    def _briefly(self, table: Table, statements: LiteralString) -> None:
        """Do one step that needs a strong lock; queue for it in short turns."""
        for left in range(LOCK_ATTEMPTS - 1, -1, -1):
            try:
                with self._conn.transaction():
                    name = {"table": NAMES[table]}
                    self._conn.execute(QUERIES["name_converted"], name)
                    self._conn.execute(statements)
            except (pg.LockNotAvailable, pg.DeadlockDetected):
                if not left:
                    raise
                time.sleep(LOCK_PAUSE_S)
            else:
                return


@contextmanager
def opened(dsn: str) -> Generator[Conversion]:
    """Open a database whose schema is current, for one conversion at a time.

    Raises:
        DatabaseUnavailable: It does not answer, or is being converted.
        SchemaError: It is to be migrated first, or its tables belong to another role.
    """
    with (
        migrate.connect(dsn) as conn,
        migrate.connect(dsn) as guard,
        guard.transaction(),
        _as_owner(conn),
    ):
        if missing := migrate.pending(conn):
            raise SchemaError(
                f"the database lacks {', '.join(missing)}: {failures.MIGRATE}"
            )
        if not guard.execute(QUERIES["lock_conversion"]).fetchall()[0][0]:
            raise DatabaseUnavailable("another conversion is running")
        yield Conversion(conn)


@contextmanager
def _as_owner(conn: psycopg.Connection[Any]) -> Generator[None]:
    try:
        yield
    except pg.InsufficientPrivilege as exc:
        raise SchemaError(
            f"{exc.diag.message_primary}: run `hermes-pgvector convert --admin-dsn "
            f"DSN` as the owner of the tables, not as {conn.info.user}"
        ) from exc
    except pg.DependentObjectsStillExist as exc:
        raise SchemaError(
            f"{exc.diag.message_primary}: drop what depends on the old vectors, then "
            "run this again"
        ) from exc
