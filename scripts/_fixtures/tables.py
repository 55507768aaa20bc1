"""Tables as JSON: what they are made of, and their rows."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql


def dump(dsn: str, *tables: str) -> list[dict[str, Any]]:
    """Return the columns and the rows of *tables*, each value as PostgreSQL prints it.

    A fixture's reader makes the table from `columns` and copies `rows` into it.
    """
    with psycopg.connect(dsn) as conn:
        return [_dump(conn, name) for name in tables]


def _dump(conn: psycopg.Connection[Any], table: str) -> dict[str, Any]:
    columns = conn.execute(
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull"
        " FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        " AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        (table,),
    ).fetchall()
    texts = sql.SQL(", ").join(
        sql.SQL("{}::text").format(sql.Identifier(name)) for name, *_ in columns
    )
    query = sql.SQL("SELECT {} FROM {} ORDER BY 1")
    rows = conn.execute(query.format(texts, sql.Identifier(table))).fetchall()
    return {"table": table, "columns": columns, "rows": rows}
