"""The maintenance log: a line for each run, added to in the transactions of its parts.

So it is right however a run ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from hermes_pgmemory.store.queries import QUERIES


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


def open_run(
    conn: psycopg.Connection[Any],
    operation: str,
    table: str | None,
    *,
    pattern: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> int:
    """Start a line of the log and return its id; *pattern* tells whose rows."""
    parameters = {
        "operation": operation,
        "table": table,
        "pattern": pattern,
        "details": Jsonb(dict(details or {})),
    }
    return conn.execute(QUERIES["open_run"], parameters).fetchall()[0][0]


def add_to_run(
    conn: psycopg.Connection[Any],
    run: int,
    *,
    affected: int = 0,
    dropped: int = 0,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Add rows to line *run* of the log, and what else is to be told."""
    parameters = {
        "run": run,
        "affected": affected,
        "dropped": dropped,
        "details": Jsonb(dict(details or {})),
    }
    conn.execute(QUERIES["add_to_run"], parameters)


def last_runs(conn: psycopg.Connection[Any], limit: int) -> list[LoggedRun]:
    """Return the latest lines of the log, latest first."""
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
