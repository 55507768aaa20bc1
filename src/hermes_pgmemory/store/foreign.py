"""Tables of other programs in PostgreSQL, read and never written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from psycopg import errors as pg
from psycopg import sql

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.store import migrate
from hermes_pgmemory.store.queries import QUERIES

PAGE: Final = 500
_NAME: Final = '"the table"'


def payloads(dsn: str, table: str) -> Iterator[dict[str, Any]]:
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
    with migrate.connect(dsn, key="--from-dsn-env") as conn:
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
