"""Search by meaning and by words, within what the caller may see."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, LiteralString

from psycopg.rows import DictRow

from hermes_pgmemory import ranking
from hermes_pgmemory.models import (
    EntryHit,
    Neighbour,
    Role,
    Target,
    Theme,
    TurnHit,
    Vector,
    Why,
)
from hermes_pgmemory.question import Question
from hermes_pgmemory.ranking import Scale
from hermes_pgmemory.repetition import Words, without_repetitions
from hermes_pgmemory.store import asking
from hermes_pgmemory.store.connection import Begin, read
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.sealed import BREADTH, BROADEST, Planner
from hermes_pgmemory.store.upkeep import Table
from hermes_pgmemory.store.vectors import like
from hermes_pgmemory.text import clip

POOL: Final = 50
"""Rows of either ranking that are fused, at least; four times the answer if more."""
SPARE: Final = 2
"""Rows read beyond the limit, because some may repeat others."""
NEIGHBOUR_CHARS: Final = 300
"""Of the turns around a turn, at most."""
SHORT_BYTES: Final = 2_000
"""Up to which the content of an entry comes with its ranking. PostgreSQL keeps a longer
one apart from its row, so that reading those of all candidates would cost more."""


_FEW: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["search_few_entries"],
    Table.TURNS: QUERIES["search_few_turns"],
}
_MANY: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["search_many_entries"],
    Table.TURNS: QUERIES["search_many_turns"],
}


def search_entries(
    begin: Begin,
    question: Question,
    *,
    target: Target | None,
    exclude: Collection[str],
    planner: Planner,
    model: str | None,
) -> list[EntryHit]:
    """Return the best entries, best first."""
    parameters = {
        **_parameters(question, model),
        "target": target and target.value,
        # What cannot be UTF-8 is not stored either, so it excludes nothing.
        "exclude": [
            hashlib.sha256(x.encode(errors="replace")).digest() for x in exclude
        ],
        "short": SHORT_BYTES,
    }
    rows = _search(begin, Table.ENTRIES, parameters, question.vector, planner)
    found = _Found.of(rows, question.scale).faded(question.half_life_days)
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
        for row in _best(found, question.limit, partial(_read_entries, begin))
    ]


def search_turns(
    begin: Begin,
    question: Question,
    *,
    session_id: str | None,
    planner: Planner,
    model: str | None,
) -> list[TurnHit]:
    """Return the best turns, best first."""
    parameters = {**_parameters(question, model), "session_id": session_id}
    rows = _search(begin, Table.TURNS, parameters, question.vector, planner)
    scored = _Found.of(rows, question.scale).in_context()
    found = scored.faded(question.half_life_days)
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
        for row in _best(found, question.limit, partial(_read_turns, begin))
    ]


def _best(
    found: _Found,
    limit: int,
    whole: Callable[[_Found, Sequence[int]], Sequence[DictRow]],
) -> list[DictRow]:
    """Return the best rows *whole*, none that repeats a better one."""
    left = ranking.best(found.scores, found.similarities())
    kept: list[DictRow] = []
    told: list[Words] = []
    while left and len(kept) < limit:
        wanted = limit - len(kept) + SPARE
        rows = whole(found, left[:wanted])
        kept += without_repetitions(rows, lambda row: row["content"], told)
        left = left[wanted:]
    return kept[:limit]


def _read_entries(begin: Begin, found: _Found, ids: Sequence[int]) -> list[DictRow]:
    rows = {id_: found.rows[id_] for id_ in ids}
    long = [id_ for id_, row in rows.items() if row["content"] is None]
    if long:
        contents = read(begin, QUERIES["read_contents"], found.places(long))
        rows |= {one["id"]: {**rows[one["id"]], **one} for one in contents}
    # One that is gone since had its content until now, or is left out.
    return [row for row in rows.values() if row["content"] is not None]


def _read_turns(begin: Begin, found: _Found, ids: Sequence[int]) -> list[DictRow]:
    excerpt = {"excerpt": NEIGHBOUR_CHARS + 1}
    return read(begin, QUERIES["read_turns"], {**found.places(ids), **excerpt})


def _neighbour(row: DictRow, place: str) -> Neighbour | None:
    if row[f"role_{place}"] is None:
        return None
    content = clip(row[f"content_{place}"], NEIGHBOUR_CHARS)
    return Neighbour(role=Role(row[f"role_{place}"]), content=content)


def _parameters(question: Question, model: str | None) -> dict[str, Any]:
    return {
        **asdict(question.facets),
        **asdict(question.scope),
        **asking.cut(question.text).parameters(),
        "model": model,
        "pool": max(POOL, 4 * question.limit),
    }


def _search(
    begin: Begin,
    table: Table,
    parameters: dict[str, Any],
    vector: Vector | None,
    planner: Planner,
) -> list[DictRow]:
    """Return the candidates; if a sealed index runs dry, find them exactly."""
    plan = planner.plan(begin, table, parameters)
    statement = (_FEW if plan.rows is None else _MANY)[table]
    # An index serves only the type it was made for. With the other type's statement, as
    # while `convert` is at work, the same rows are found, but exactly.
    if plan.kind == "vector":
        statement = statement.replace("::halfvec", "::vector")
    asked: dict[str, Any] = {
        **parameters,
        **plan.parameters(),
        "vector": like(vector, plan.kind),
    }
    if plan.rows is None:
        return read(begin, statement, asked)
    breadth = min(max(BREADTH, asked["pool"]), BROADEST)
    tuning = {"breadth": f"{breadth}", "iterative": plan.iterative}
    tuned = QUERIES["tune_search"], tuning
    rows = read(begin, statement, asked, after=tuned)
    is_sealed = vector is not None and plan.watermark is not None
    if not is_sealed or (rows and rows[0]["near"] >= asked["pool"]):
        return rows
    return read(begin, statement, {**asked, "watermark": None}, after=tuned)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a search yielded, with a score each."""

    rows: Mapping[int, DictRow]
    scores: Mapping[int, float]
    scale: Scale
    alone: Mapping[int, float]
    """The scores as they were before anything but the row itself had a say."""
    unfaded: Mapping[int, float]

    @classmethod
    def of(cls, rows: Sequence[DictRow], scale: Scale) -> _Found:
        near = {
            row["id"]: nearness
            for row in rows
            if (nearness := _nearness(row, scale)) is not None
        }
        spoken = {row["id"]: row["lexical"] for row in rows if row["lexical"] > 0}
        scores = ranking.mix(near, spoken)
        return cls({row["id"]: row for row in rows}, scores, scale, scores, scores)

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
        return replace(self, scores=scores, unfaded=scores)

    def faded(self, half_life_days: float) -> _Found:
        """Return the same rows, those of long ago with less of a score."""
        times = {id_: row["at"] for id_, row in self.rows.items()}
        scores = ranking.faded(self.scores, times, half_life_days)
        return replace(self, scores=scores)

    def similarities(self) -> dict[int, float]:
        """Return how similar each row is to the question, where that is known."""
        known = ((id_, row["similarity"]) for id_, row in self.rows.items())
        return {id_: similarity for id_, similarity in known if similarity is not None}

    def places(self, ids: Sequence[int]) -> dict[str, Any]:
        """Return the parameters that read these rows."""
        themes = [self.rows[id_]["agent_identity"] for id_ in ids]
        return {"ids": ids, "themes": themes}

    def judgement(self, id_: int) -> dict[str, Any]:
        """Return what a hit tells of how well it fits."""
        row = self.rows[id_]
        nearness = _nearness(row, self.scale)
        unfaded = self.unfaded[id_]
        return {
            "similarity": row["similarity"],
            "relevance": ranking.relevance(
                nearness,
                row["lexical"],
                rows=row["rows"],
                wordless=row["words"] == 0,
            ),
            "score": self.scores[id_],
            "why": Why(
                nearness=nearness,
                words=row["lexical"],
                alone=self.alone[id_],
                in_context=unfaded,
                kept=self.scores[id_] / unfaded if unfaded else 1.0,
            ),
        }


def _nearness(row: DictRow, scale: Scale) -> float | None:
    if row["similarity"] is None:
        return None
    return scale.nearness(row["similarity"], scale.baseline(row["mean"], row["sample"]))
