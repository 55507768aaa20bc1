"""Numbers about a database, for an operator who looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg

from hermes_pgmemory.store.queries import QUERIES


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """Bytes of one table on disk."""

    table: str
    total: int
    indexes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRun:
    """A line of the maintenance log."""

    at: datetime
    operation: str
    table: str | None
    pattern: str | None
    affected: int
    dropped: int
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


def sizes(conn: psycopg.Connection[Any]) -> list[TableSize]:
    """Measure our tables, largest first."""
    rows = conn.execute(QUERIES["table_sizes"]).fetchall()
    return [TableSize(table=a, total=b, indexes=c) for a, b, c in rows]


def last_runs(conn: psycopg.Connection[Any], limit: int) -> list[LoggedRun]:
    """Return the latest lines of the maintenance log, latest first."""
    rows = conn.execute(QUERIES["last_runs"], {"limit": limit}).fetchall()
    return [
        LoggedRun(
            at=at,
            operation=operation,
            table=table,
            pattern=pattern,
            affected=affected or 0,
            dropped=dropped or 0,
            details=details,
        )
        for at, operation, table, pattern, affected, dropped, details in rows
    ]
