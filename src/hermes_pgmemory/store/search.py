"""Search by meaning and by words, within what the caller may see."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Any, Final

import psycopg
from psycopg.rows import DictRow, dict_row

from hermes_pgmemory import ranking
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
        **_question(text, vector, scope, limit),
        "target": target and target.value,
        # What cannot be UTF-8 is not stored either, so it excludes nothing.
        "exclude": [
            hashlib.sha256(x.encode(errors="replace")).digest() for x in exclude
        ],
    }
    rows = _run(conn, "search_entries", parameters)
    return [
        EntryHit(
            id=row["id"],
            theme=Theme(row["agent_identity"]),
            target=Target(row["target"]),
            content=row["content"],
            similarity=row["similarity"],
            relevance=row["relevance"],
            score=score,
            created_at=row["created_at"],
            updated_at=row["updated_at"],
        )
        for row, score in _best(rows, scale, limit)
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
    parameters = {**_question(text, vector, scope, limit), "session_id": session_id}
    rows = _run(conn, "search_turns", parameters)
    return [
        TurnHit(
            id=row["id"],
            theme=Theme(row["agent_identity"]),
            session_id=row["session_id"],
            role=Role(row["role"]),
            content=row["content"],
            similarity=row["similarity"],
            relevance=row["relevance"],
            score=score,
            at=row["ts"],
        )
        for row, score in _best(rows, scale, limit)
    ]


def _question(
    text: str, vector: Vector | None, scope: Scope, limit: int
) -> dict[str, Any]:
    return {
        # A prompt may hold what PostgreSQL cannot, and therefore has no row of.
        "text": text.encode(errors="replace").decode().replace("\0", " "),
        "vector": half(vector),
        "theme": scope.theme,
        "subject": scope.subject,
        "include_shared": scope.include_shared,
        "pool": max(POOL, 4 * limit),
    }


def _run(
    conn: psycopg.Connection[Any], name: str, parameters: dict[str, Any]
) -> list[DictRow]:
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(QUERIES[name], parameters).fetchall()


def _best(
    rows: Sequence[DictRow], scale: Scale, limit: int
) -> list[tuple[DictRow, float]]:
    """Fuse both signals of the candidates, half each; keep the *limit* best.

    Each row gets its relevance, where it has a vector.
    """
    found = {row["id"]: row for row in rows}
    near: dict[int, float] = {}
    for row in rows:
        row["relevance"] = None
        if row["similarity"] is not None:
            baseline = scale.baseline(row["mean"], row["sample"])
            row["relevance"] = scale.relevance(row["similarity"], baseline)
            near[row["id"]] = row["relevance"]
    spoken = {row["id"]: row["lexical"] for row in rows if row["lexical"] > 0}
    ranked = ranking.mix([near, spoken])
    return [(found[row], score) for row, score in ranked[:limit]]
