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

    ask: Callable[[int], list[int]]
    """Asks the question of this number."""
    times: list[float] = field(default_factory=list[float])
    ids: list[list[int]] = field(default_factory=list[list[int]])

    def note(self, number: int) -> None:
        """Ask one question, and remember what came of it."""
        began = time.perf_counter()
        self.ids.append(self.ask(number))
        self.times.append((time.perf_counter() - began) * 1000)


def ask_ours(
    store: Store,
    conn: psycopg.Connection[Any],
    data: Data,
    rank: int | None,
    vectors: Sequence[Any],
    watermark: int,
) -> dict[str, Any]:
    """Ask one theme everything, and the same by SQL written by hand."""
    theme = rank and f"theme-{rank}"
    scope = Scope(theme=theme and Theme(theme), subject=None)
    conn.execute("SET hnsw.iterative_scan = relaxed_order")
    conn.execute(f"SET hnsw.ef_search = {EF_SEARCH}")
    texts = _words(data, len(vectors))
    values = [vector.tolist() for vector in vectors]
    given = {"theme": theme, "watermark": watermark, "pool": POOL}

    def search(number: int, text: str) -> list[int]:
        question = Question(text=text, vector=values[number], scope=scope, limit=LIMIT)
        return [hit.id for hit in store.search_entries(question, timeout_s=60)]

    def by_hand(query: LiteralString, number: int) -> list[int]:
        rows = conn.execute(query, given | {"vector": HalfVector(values[number])})
        return [row[0] for row in rows.fetchall()]

    exact = Asked(partial(by_hand, EXACT))
    sealed = Asked(partial(by_hand, SEALED))
    ours = Asked(partial(search, text=""))
    words = Asked(lambda number: search(number, texts[number]))
    # Reading all rows drives everything else out of the processor's memory: whoever
    # comes next would pay for it.
    _ask_in_turns([exact], len(values))
    _ask_in_turns([sealed, ours, words], len(values))
    return {
        "rows": data.rows if rank is None else data.sizes[rank - 1],
        **judged(ours.ids, exact.ids, ours.times),
        "raw_p50_ms": _raw_ms(exact, sealed),
        "words_p50_ms": round(median(words.times), 2),
        "words_p95_ms": _p95(words.times),
    }


def _ask_in_turns(ways: Sequence[Asked], questions: int) -> None:
    """Ask every question twice by each way; the first time warms everything up.

    The order of the ways goes round, so that none always follows the same one.
    """
    for number in range(questions):
        for way in ways:
            way.ask(number)
    for number in range(questions):
        first = number % len(ways)
        for way in (*ways[first:], *ways[:first]):
            way.note(number)


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
