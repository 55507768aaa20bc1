"""Memory entries as they are, without a question: newest first."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import DictRow, dict_row

from hermes_pgmemory.models import Entry, Scope, Target
from hermes_pgmemory.store.queries import QUERIES


def entries(
    conn: psycopg.Connection[Any],
    *,
    scope: Scope,
    target: Target | None,
    holding: str,
    limit: int,
) -> list[Entry]:
    """Return the newest *limit* entries of *scope* that hold the text *holding*."""
    parameters = {
        "theme": scope.theme,
        "subject": scope.subject,
        "include_shared": scope.include_shared,
        "target": target,
        "holding": holding,
        "limit": limit,
    }
    with conn.cursor(row_factory=dict_row) as cursor:
        rows: list[DictRow] = cursor.execute(
            QUERIES["list_entries"], parameters
        ).fetchall()
    return [_entry(row) for row in rows]


def _entry(row: DictRow) -> Entry:
    fields: dict[str, Any] = {**row, "target": Target(row["target"])}
    return Entry(**fields)
