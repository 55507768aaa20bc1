"""Ask the same questions of ours and of SQL written by hand, and judge the answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, LiteralString

import psycopg
from _scale_data import Data
from pgvector import HalfVector

from hermes_pgmemory.models import Scope, Theme
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import Store

LIMIT, POOL, EF_SEARCH = 10, 50, 200
ENOUGH = 0.99
"""Recall from which on SQL by hand counts as an answer."""
COLUMNS: LiteralString = (
    "id, agent_identity, target, content, created_at, updated_at,"
    " 1 - distance AS similarity"
)
MINE: LiteralString = (
    "(%(theme)s::text IS NULL OR agent_identity = %(theme)s)"
    " AND subject IS NULL AND retired_at IS NULL AND model_id = 1"
)
EXACT: LiteralString = f"""
SELECT {COLUMNS}
  FROM (SELECT *, embedding <=> %(vector)b::halfvec AS distance
          FROM memory_entries
         WHERE {MINE}
         ORDER BY distance, id LIMIT %(pool)s) AS pool
 ORDER BY distance, id LIMIT 10
"""
SEALED: LiteralString = f"""
WITH sealed AS MATERIALIZED (
    SELECT *, embedding <=> %(vector)b::halfvec AS distance
      FROM memory_entries
     WHERE {MINE} AND id <= %(watermark)s
     ORDER BY embedding <=> %(vector)b::halfvec LIMIT %(pool)s
), tail AS MATERIALIZED (
    SELECT *, embedding <=> %(vector)b::halfvec AS distance
      FROM memory_entries
     WHERE {MINE} AND id > %(watermark)s
     ORDER BY distance LIMIT %(pool)s
)
SELECT {COLUMNS} FROM (SELECT * FROM sealed UNION ALL SELECT * FROM tail) AS pool
 ORDER BY distance, id LIMIT 10
"""


@dataclass
class Asked:
    """What one way of asking took, in ms, and the ids it found, by question."""

    times: list[float] = field(default_factory=list[float])
    ids: list[list[int]] = field(default_factory=list[list[int]])

    def note(self, ask: Callable[[], list[int]]) -> None:
        """Ask once."""
        began = time.perf_counter()
        self.ids.append(ask())
        self.times.append((time.perf_counter() - began) * 1000)

    def warm(self) -> Asked:
        """Return it without the first question, which warmed everything up."""
        return Asked(self.times[1:], self.ids[1:])


def ask_ours(
    store: Store,
    conn: psycopg.Connection[Any],
    data: Data,
    rank: int | None,
    vectors: Sequence[Any],
    watermark: int,
) -> dict[str, Any]:
    """Ask one theme everything, in turns with the SQL written by hand."""
    theme = rank and f"theme-{rank}"
    scope = Scope(theme=theme and Theme(theme), subject=None)
    conn.execute("SET hnsw.iterative_scan = relaxed_order")
    conn.execute(f"SET hnsw.ef_search = {EF_SEARCH}")
    texts = _words(data, len(vectors))
    exact, sealed, ours, words = Asked(), Asked(), Asked(), Asked()
    given = {"theme": theme, "watermark": watermark, "pool": POOL}

    def search(text: str, values: list[float]) -> list[int]:
        question = Question(text=text, vector=values, scope=scope, limit=LIMIT)
        return [hit.id for hit in store.search_entries(question, timeout_s=60)]

    def by_hand(query: LiteralString, values: list[float]) -> list[int]:
        rows = conn.execute(query, given | {"vector": HalfVector(values)})
        return [row[0] for row in rows.fetchall()]

    for vector, text in zip([vectors[0], *vectors], [texts[0], *texts], strict=True):
        values = vector.tolist()
        exact.note(partial(by_hand, EXACT, values))
        sealed.note(partial(by_hand, SEALED, values))
        ours.note(partial(search, "", values))
        words.note(partial(search, text, values))
    return {
        "rows": data.rows if rank is None else data.sizes[rank - 1],
        **judged(ours.warm().ids, exact.warm().ids, ours.warm().times),
        "raw_p50_ms": _raw_ms(exact.warm(), sealed.warm()),
        "words_p50_ms": round(median(words.warm().times), 2),
        "words_p95_ms": _p95(words.warm().times),
    }


def _raw_ms(exact: Asked, sealed: Asked) -> float:
    """Return the median of the better SQL by hand.

    An index that finds less is no better way to the same rows.
    """
    ways = [exact]
    if judged(sealed.ids, exact.ids, sealed.times)["recall_at_10"] >= ENOUGH:
        ways.append(sealed)
    return round(min(median(way.times) for way in ways), 2)


def _words(data: Data, count: int) -> list[str]:
    """Return questions of eight words, common ones and rare ones, from rows."""
    texts = data.texts()
    return [" ".join(next(texts).split()[1:9]) for _ in range(count)]


def judged(
    answers: Sequence[Sequence[int]],
    truth: Sequence[Sequence[int]],
    times: Sequence[float],
) -> dict[str, Any]:
    """Return how much of the *truth* the answers hold, and what they took."""
    shares = [
        len(set(answer) & set(true)) / len(true)
        for answer, true in zip(answers, truth, strict=True)
    ]
    return {
        "recall_at_10": round(sum(shares) / len(shares), 4),
        "short": sum(
            len(answer) < len(true) for answer, true in zip(answers, truth, strict=True)
        ),
        "p50_ms": round(median(times), 2),
        "p95_ms": _p95(times),
    }


def _p95(times: Sequence[float]) -> float:
    return round(sorted(times)[math.ceil(len(times) * 0.95) - 1], 2)
