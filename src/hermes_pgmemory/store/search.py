"""Search by meaning and by words, within what the caller may see."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import psycopg
from psycopg.rows import DictRow, dict_row

from hermes_pgmemory import ranking
from hermes_pgmemory.models import (
    EntryHit,
    Facets,
    Neighbour,
    Role,
    Scope,
    Target,
    Theme,
    TurnHit,
    Vector,
)
from hermes_pgmemory.ranking import Scale
from hermes_pgmemory.repetition import Words, without_repetitions
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.vectors import half
from hermes_pgmemory.text import clip

POOL: Final = 50
"""Rows of either ranking that are fused, at least; four times the answer if more."""
SPARE: Final = 2
"""Rows read beyond the limit, because some may repeat others."""
NEIGHBOUR_CHARS: Final = 300
"""Of the turns around a turn, at most."""


def search_entries(
    conn: psycopg.Connection[Any],
    *,
    text: str,
    vector: Vector | None,
    scope: Scope,
    target: Target | None,
    facets: Facets,
    limit: int,
    exclude: Collection[str],
    scale: Scale,
    half_life_days: float,
) -> list[EntryHit]:
    """Return the *limit* best entries, best first."""
    parameters = {
        **_question(text, vector, scope, facets, limit),
        "target": target and target.value,
        # What cannot be UTF-8 is not stored either, so it excludes nothing.
        "exclude": [
            hashlib.sha256(x.encode(errors="replace")).digest() for x in exclude
        ],
    }
    rows = _run(conn, "search_entries", parameters)
    found = _Found.of(rows, scale).faded(half_life_days)
    return [
        EntryHit(
            id=row["id"],
            theme=Theme(row["agent_identity"]),
            target=Target(row["target"]),
            content=row["content"],
            created_at=row["created_at"],
            updated_at=row["updated_at"],
            platform=row["platform"],
            **found.judgement(row["id"]),
        )
        for row in _best(conn, "read_entries", found, limit)
    ]


def search_turns(
    conn: psycopg.Connection[Any],
    *,
    text: str,
    vector: Vector | None,
    scope: Scope,
    session_id: str | None,
    facets: Facets,
    limit: int,
    scale: Scale,
    half_life_days: float,
) -> list[TurnHit]:
    """Return the *limit* best turns, best first."""
    parameters = {
        **_question(text, vector, scope, facets, limit),
        "session_id": session_id,
    }
    rows = _run(conn, "search_turns", parameters)
    found = _Found.of(rows, scale).in_context().faded(half_life_days)
    return [
        TurnHit(
            id=row["id"],
            theme=Theme(row["agent_identity"]),
            session_id=row["session_id"],
            role=Role(row["role"]),
            content=row["content"],
            at=row["ts"],
            platform=row["platform"],
            before=_neighbour(row, "before"),
            after=_neighbour(row, "after"),
            **found.judgement(row["id"]),
        )
        for row in _best(conn, "read_turns", found, limit)
    ]


def _best(
    conn: psycopg.Connection[Any], name: str, found: _Found, limit: int
) -> list[DictRow]:
    """Read the best rows by the statement *name*, none that repeats a better one."""
    left = ranking.best(found.scores)
    kept: list[DictRow] = []
    told: list[Words] = []
    while left and len(kept) < limit:
        wanted = limit - len(kept) + SPARE
        rows = _run(conn, name, found.places(left[:wanted]))
        kept += without_repetitions(rows, lambda row: row["content"], told)
        left = left[wanted:]
    return kept[:limit]


def _neighbour(row: DictRow, place: str) -> Neighbour | None:
    if row[f"role_{place}"] is None:
        return None
    content = clip(row[f"content_{place}"], NEIGHBOUR_CHARS)
    return Neighbour(role=Role(row[f"role_{place}"]), content=content)


def _question(
    text: str, vector: Vector | None, scope: Scope, facets: Facets, limit: int
) -> dict[str, Any]:
    return {
        **asdict(facets),
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


@dataclass(frozen=True, slots=True)
class _Found:
    """What a search yielded, with a score each."""

    rows: Mapping[int, DictRow]
    scores: Mapping[int, float]
    scale: Scale

    @classmethod
    def of(cls, rows: Sequence[DictRow], scale: Scale) -> _Found:
        near = {
            row["id"]: nearness
            for row in rows
            if (nearness := _nearness(row, scale)) is not None
        }
        spoken = {row["id"]: row["lexical"] for row in rows if row["lexical"] > 0}
        scores = ranking.mix([near, spoken])
        return cls({row["id"]: row for row in rows}, scores, scale)

    def in_context(self) -> _Found:
        """Return the same turns, scored with what was said around them."""
        scores = ranking.in_context(
            self.scores,
            [row["chain"] for row in self.rows.values() if row["chain"]],
            {
                id_: (row["agent_identity"], row["session_id"])
                for id_, row in self.rows.items()
            },
        )
        return replace(self, scores=scores)

    def faded(self, half_life_days: float) -> _Found:
        """Return the same rows, those of long ago with less of a score."""
        times = {id_: row["at"] for id_, row in self.rows.items()}
        scores = ranking.faded(self.scores, times, half_life_days)
        return replace(self, scores=scores)

    def places(self, ids: Sequence[int]) -> dict[str, Any]:
        """Return the parameters that read these rows."""
        themes = [self.rows[id_]["agent_identity"] for id_ in ids]
        return {"ids": ids, "themes": themes, "excerpt": NEIGHBOUR_CHARS + 1}

    def judgement(self, id_: int) -> dict[str, Any]:
        """Return what a hit tells of how well it fits."""
        row = self.rows[id_]
        return {
            "similarity": row["similarity"],
            "relevance": ranking.relevance(
                _nearness(row, self.scale),
                row["lexical"],
                rows=row["rows"],
                wordless=row["words"] == 0,
            ),
            "score": self.scores[id_],
        }


def _nearness(row: DictRow, scale: Scale) -> float | None:
    if row["similarity"] is None:
        return None
    return scale.nearness(row["similarity"], scale.baseline(row["mean"], row["sample"]))
