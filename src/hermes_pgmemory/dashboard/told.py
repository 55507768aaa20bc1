"""What the host's dashboard gets to draw, as plain data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from hermes_pgmemory.dashboard import charts, words
from hermes_pgmemory.dashboard.sources import DAYS, Counted, Found
from hermes_pgmemory.dashboard.watched import Glimpse
from hermes_pgmemory.journal import JournalStatus
from hermes_pgmemory.models import EntryHit, ThemeCount, TurnHit
from hermes_pgmemory.survey import Part


def overview(
    counted: Glimpse[Counted],
    health: Glimpse[Mapping[str, Part]],
    journal: JournalStatus,
) -> dict[str, Any]:
    """Tell what the fleet holds, and how every part is.

    What is not known yet is None: `themes` and `tiles` before the first count,
    `health` before the first look.
    """
    return {
        "days": DAYS,
        "counted_at": _time(counted.at),
        "problem": counted.problem,
        "tiles": counted.value and _tiles(counted.value, journal),
        "themes": counted.value and _themes(counted.value),
        "health": None if health.value is None else _health(health.value),
        "health_problem": health.problem,
    }


def found(answer: Found) -> dict[str, Any]:
    """Tell what a question found, in the order of ranking, and why."""
    return {
        "degraded": answer.degraded,
        "entries": [_entry(hit) for hit in answer.entries.hits]
        if answer.entries
        else [],
        "turns": [_turn(hit) for hit in answer.turns.hits] if answer.turns else [],
    }


def _tiles(counted: Counted, journal: JournalStatus) -> list[dict[str, str]]:
    themes, number = counted.themes, words.number
    retired = sum(one.retired for one in themes)
    refused = journal.dead_letters
    tiles = (
        (
            "Memories",
            number(sum(one.entries for one in themes)),
            f"in use, {number(retired)} retired" if retired else "in use",
        ),
        ("Turns", number(sum(one.turns for one in themes)), "of conversations"),
        (
            "Themes",
            number(len(themes)),
            f"{number(sum(counted.private.values()))} private rows",
        ),
        (
            "Waiting",
            number(journal.pending),
            f"{number(refused)} refused" if refused else "in the journal",
        ),
        ("On disk", words.megabytes(counted.bytes), "tables and indexes"),
    )
    return [{"title": a, "value": b, "note": c} for a, b, c in tiles]


def _themes(counted: Counted) -> list[dict[str, Any]]:
    sparks = charts.daily(counted.hours, since=counted.since, days=DAYS)
    return [
        _theme(one, counted.private.get(one.theme, 0), sparks.get(one.theme))
        for one in counted.themes
    ]


def _theme(one: ThemeCount, private: int, spark: charts.Spark | None) -> dict[str, Any]:
    return {
        "theme": one.theme,
        "kind": one.kind,
        "entries": one.entries,
        "retired": one.retired,
        "turns": one.turns,
        "private": private,
        "unembedded": one.unembedded_entries + one.unembedded_turns,
        "last_seen": _time(one.last_seen),
        "spark": spark
        and {
            "title": spark.title,
            "width": spark.width,
            "height": spark.height,
            "bars": list(spark.bars),
        },
    }


def _health(parts: Mapping[str, Part]) -> list[dict[str, str]]:
    return [
        {"part": name, "state": part.state, "detail": part.detail}
        for name, part in parts.items()
    ]


def _entry(hit: EntryHit) -> dict[str, Any]:
    return {
        "kind": "about the user" if hit.target == "user" else "memory",
        "at": _time(hit.updated_at),
        **_hit(hit),
    }


def _turn(hit: TurnHit) -> dict[str, Any]:
    beside = {"before": hit.before, "after": hit.after}
    return {
        "kind": hit.role,
        "at": _time(hit.at),
        **_hit(hit),
        **{
            name: one and {"role": one.role, "content": one.content}
            for name, one in beside.items()
        },
    }


def _hit(hit: EntryHit | TurnHit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "theme": hit.theme,
        "platform": hit.platform,
        "content": hit.content,
        "score": hit.score,
        "relevance": hit.relevance,
        "similarity": hit.similarity,
        "why": asdict(hit.why),
    }


def _time(at: datetime | None) -> str | None:
    return at and at.isoformat(timespec="seconds")
