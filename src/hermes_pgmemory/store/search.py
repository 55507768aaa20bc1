"""Search by meaning and by words, within what the caller may see."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, Final

import psycopg
from psycopg.rows import DictRow, dict_row

from hermes_pgmemory.models import (
    EntryHit,
    Role,
    Scope,
    Target,
    Theme,
    TurnHit,
    Vector,
)
from hermes_pgmemory.ranking import Scale
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.vectors import half

POOL: Final = 50
"""Rows of either ranking that are fused, at least; four times the answer if more."""


def search_entries(
    conn: psycopg.Connection[Any],
    *,
    text: str,
    vector: Vector | None,
    scope: Scope,
    target: Target | None,
    limit: int,
    exclude: Collection[str],
    scale: Scale,
) -> list[EntryHit]:
    """Return the *limit* best entries, best first."""
    parameters = {
        **_question(text, vector, scope, limit, scale),
        "target": target and target.value,
        # What cannot be UTF-8 is not stored either, so it excludes nothing.
        "exclude": [
            hashlib.sha256(x.encode(errors="replace")).digest() for x in exclude
        ],
    }
    return [
        EntryHit(
            id=row["id"],
            theme=Theme(row["agent_identity"]),
            target=Target(row["target"]),
            content=row["content"],
            similarity=row["similarity"],
            relevance=row["relevance"],
            score=row["score"],
            created_at=row["created_at"],
            updated_at=row["updated_at"],
        )
        for row in _run(conn, "search_entries", parameters)
    ]


def search_turns(
    conn: psycopg.Connection[Any],
    *,
    text: str,
    vector: Vector | None,
    scope: Scope,
    session_id: str | None,
    limit: int,
    scale: Scale,
) -> list[TurnHit]:
    """Return the *limit* best turns, best first."""
    parameters = {
        **_question(text, vector, scope, limit, scale),
        "session_id": session_id,
    }
    return [
        TurnHit(
            id=row["id"],
            theme=Theme(row["agent_identity"]),
            session_id=row["session_id"],
            role=Role(row["role"]),
            content=row["content"],
            similarity=row["similarity"],
            relevance=row["relevance"],
            score=row["score"],
            at=row["ts"],
        )
        for row in _run(conn, "search_turns", parameters)
    ]


def _question(
    text: str, vector: Vector | None, scope: Scope, limit: int, scale: Scale
) -> dict[str, Any]:
    return {
        # A prompt may hold what PostgreSQL cannot, and therefore has no row of.
        "text": text.encode(errors="replace").decode().replace("\0", " "),
        "vector": half(vector),
        "theme": scope.theme,
        "subject": scope.subject,
        "include_shared": scope.include_shared,
        "limit": limit,
        "pool": max(POOL, 4 * limit),
        "floor": scale.floor,
        "ceiling": scale.ceiling,
    }


def _run(
    conn: psycopg.Connection[Any], name: str, parameters: dict[str, Any]
) -> list[DictRow]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(QUERIES[name], parameters).fetchall()
