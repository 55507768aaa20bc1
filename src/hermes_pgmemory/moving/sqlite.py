"""SQLite databases of others, read and never written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hermes_pgmemory.errors import BadRequest

FETCHED = 200


def opened(file: Path, tables: Sequence[str]) -> sqlite3.Connection:
    """Open *file* for reading; whoever calls it closes the connection.

    Raises:
        BadRequest: It is no such database, or lacks one of the *tables*.
    """
    conn = sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True)
    try:
        conn.row_factory = sqlite3.Row
        missing = [name for name in tables if not _columns(conn, name)]
    except sqlite3.Error as exc:
        conn.close()
        raise BadRequest(f"{file} cannot be read: {exc}") from exc
    if missing:
        conn.close()
        raise BadRequest(f"{file} has no table {missing[0]}")
    return conn


def rows(
    conn: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    *,
    order: str,
    where: str = "1 = ?",
    value: object = 1,
) -> Iterator[Mapping[str, Any]]:
    """Yield rows of *table*; a column that an older version lacks is None.

    The names are this package's own, never a user's.
    """
    there = _columns(conn, table)
    wanted = [name if name in there else f"NULL AS {name}" for name in columns]
    statement = (
        f"SELECT {', '.join(wanted)} FROM {table} WHERE {where} ORDER BY {order}"
    )
    with_cursor = conn.execute(statement, (value,))
    while page := with_cursor.fetchmany(FETCHED):
        for row in page:
            yield dict(row)


def _columns(conn: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in conn.execute(f"PRAGMA table_info({table})")}
