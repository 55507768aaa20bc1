"""Numbers about a database, for an operator who looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

import psycopg

from hermes_pgmemory.store.queries import QUERIES


@dataclass(frozen=True, slots=True, kw_only=True)
class ThemeStats:
    """What one theme holds; the fields are the columns of the query, in order."""

    theme: str
    kind: str | None
    entries: int
    retired: int
    turns: int
    unembedded_entries: int
    unembedded_turns: int
    last_seen: datetime | None


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


def theme_stats(conn: psycopg.Connection[Any]) -> list[ThemeStats]:
    """Count what each theme holds, by name."""
    names = [column.name for column in fields(ThemeStats)]
    rows = conn.execute(QUERIES["theme_stats"]).fetchall()
    return [ThemeStats(**dict(zip(names, row, strict=True))) for row in rows]


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
