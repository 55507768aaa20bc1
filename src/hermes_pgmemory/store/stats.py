"""Numbers about a database, for an operator who looks at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from hermes_pgmemory.store.queries import QUERIES


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """Bytes of one table on disk."""

    table: str
    total: int
    indexes: int


def sizes(conn: psycopg.Connection[Any]) -> list[TableSize]:
    """Measure our tables, largest first."""
    rows = conn.execute(QUERIES["table_sizes"]).fetchall()
    return [TableSize(table=a, total=b, indexes=c) for a, b, c in rows]
