"""Tables of other programs in PostgreSQL, read and never written."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import errors as pg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.foreign_json import TooDeepError, parsed
from hermes_pgmemory.store import migrate
from hermes_pgmemory.store.queries import QUERIES

PAGE: Final = 500
FROM: Final = "--from-dsn-env"
"""What an operator names the other database by."""

Row = dict[str, Any]
"""By column."""

_NAME: Final = '"the table"'


def payloads(dsn: str, table: str) -> Iterator[Row]:
    """Yield `id` and `payload` of a table that mem0 keeps its memories in, by id.

    Args:
        dsn: Where it is.
        table: Its name, with its schema where that is not in the search path.

    Raises:
        BadRequest: There is no such table.
        ConfigError: libpq cannot parse *dsn*.
        DatabaseUnavailable: It cannot be reached.
    """
    before, behind = QUERIES["foreign_payloads"].split(_NAME)
    name = sql.Identifier(*table.split("."))
    query = sql.Composed([sql.SQL(before), name, sql.SQL(behind)])
    after = None
    with _opened(dsn) as conn:
        try:
            while page := conn.execute(
                query, {"after": after, "limit": PAGE}
            ).fetchall():
                for row, payload in page:
                    yield {"id": str(row), "payload": payload}
                after = page[-1][0]
        except (pg.UndefinedTable, pg.UndefinedColumn) as exc:
            raise BadRequest(
                f"no table of mem0 is called {table}: see --table"
            ) from exc


@dataclass(frozen=True, slots=True)
class Hexus:
    """The tables of hexus, page by page."""

    conn: psycopg.Connection[Any]

    def entries(self) -> Iterator[Row]:
        """Yield the entries of every agent, in the order in which they were made."""
        return self._by_id("hexus_entries")

    def delegations(self) -> Iterator[Row]:
        """Yield what every agent delegated, in its order."""
        return self._by_id("hexus_delegations")

    def sessions(self) -> Iterator[tuple[Row, list[Row]]]:
        """Yield each agent's part of each session, with its turns in their order."""
        last: Row = {"session_id": None, "agent_identity": None}
        while page := self._rows("hexus_sessions", {**last, "limit": PAGE}):
            for session in page:
                yield session, self._rows("hexus_turns", session)
            last = page[-1]

    def _by_id(self, query: str) -> Iterator[Row]:
        after = 0
        while page := self._rows(query, {"after": after, "limit": PAGE}):
            yield from page
            after = page[-1]["id"]

    def _rows(self, query: str, asked: Row) -> list[Row]:
        with self.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(QUERIES[query], asked).fetchall()


@contextmanager
def _opened(dsn: str) -> Generator[psycopg.Connection[Any]]:
    with migrate.connect(dsn, key=FROM) as conn:
        set_json_loads(_value, conn)
        yield conn


def _value(document: str | bytes) -> object:
    """Return what *document* says; nothing, where it nests without measure."""
    try:
        return parsed(document)
    except TooDeepError:
        return None


@contextmanager
def hexus(dsn: str) -> Generator[Hexus]:
    """Open a database of hexus.

    Raises:
        BadRequest: Its tables are not those of hexus.
        ConfigError: libpq cannot parse *dsn*.
        DatabaseUnavailable: It cannot be reached.
    """
    with _opened(dsn) as conn:
        if not conn.execute(QUERIES["is_hexus"]).fetchall()[0][0]:
            raise BadRequest(
                f"the database that {FROM} names is not one of hexus: it lacks columns "
                "of memory_entries, conversations or delegations"
            )
        yield Hexus(conn)
