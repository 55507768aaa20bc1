"""What a run comes to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from _bench._stage import percentiles
from _chaos.book import Book, Verdict

from _fleet.roster import BUCKET, Minion, authors
from _fleet.stage import Stage


def judge(book: Book, stage: Stage) -> Verdict:
    """Compare the new primary with what the minions were promised."""
    return book.compare(
        stage.rows(
            "SELECT agent_identity, target, content FROM memory_entries"
            " WHERE retired_at IS NULL ORDER BY id"
        ),
        stage.rows(
            "SELECT agent_identity, session_id, role, content FROM conversations"
            " ORDER BY id"
        ),
    )


def mixed(minions: Iterable[Minion], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return what is stored where it may not be.

    Args:
        minions: The fleet.
        rows: Theme, subject and content of every row.
    """
    allowed: defaultdict[str, set[str]] = defaultdict(set)
    for minion in minions:
        allowed[minion.theme].add(minion.name)
    found: list[str] = []
    persons: defaultdict[str, set[str]] = defaultdict(set)
    for theme, subject, content in rows:
        if strange := authors(content) - allowed[theme]:
            found.append(f"{sorted(strange)} in the theme {theme}")
        if (subject is not None) != (theme == BUCKET):
            found.append(f"{sorted(authors(content))} in {theme}: private, or not")
        persons[subject or ""] |= authors(content)
    for subject, names in persons.items():
        if subject and len(names) > 1:
            found.append(f"{sorted(names)} are one person's")
    return found


def everything(stage: Stage) -> list[tuple[Any, ...]]:
    """Return theme, subject and content of every row."""
    return stage.rows(
        "SELECT agent_identity, subject, content FROM memory_entries"
        " UNION ALL SELECT agent_identity, subject, content FROM conversations"
    )


def figures(
    told: Sequence[dict[str, Any]], verdict: Verdict, mixed: Sequence[str]
) -> dict[str, Any]:
    """Add up what the hosts reported, and put it beside what the database says."""
    took = [ms for one in told for ms in one["recalls_ms"]]
    failures = sum(one["hook_failures"] for one in told)
    return {
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "out_of_order": verdict.out_of_order,
        "errors": failures + sum(len(one["errors"]) for one in told),
        "leaks": len(mixed) + sum(len(one["leaks"]) for one in told),
        "recall_ms": percentiles(took) if len(took) > 1 else {},
    }
