"""Counting, and giving vectors to the rows that were stored without."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, LiteralString

import psycopg

from hermes_pgmemory.models import (
    CONTEXT_CHARS,
    AgentKind,
    Theme,
    ThemeCount,
    Vector,
    in_context,
)
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.turns import text_hash
from hermes_pgmemory.store.vectors import read_stamp


class Table(StrEnum):
    """What can be embedded."""

    ENTRIES = "entries"
    TURNS = "turns"


NAMES: Final = {Table.ENTRIES: "memory_entries", Table.TURNS: "conversations"}
"""What PostgreSQL calls each."""
NAMED: Final = {name: table for table, name in NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unembedded:
    """A row that waits for a vector."""

    id: int
    theme: Theme
    content: str
    context: str = ""
    """The end of what was said before it, as `models.in_context` takes it."""

    @property
    def text(self) -> str:
        """What is to be embedded."""
        return in_context(self.content, self.context)


_UNEMBEDDED: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["unembedded_entries"],
    Table.TURNS: QUERIES["unembedded_turns"],
}
_BARE: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["bare_entries"],
    Table.TURNS: QUERIES["bare_turns"],
}
_SET_VECTORS: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["set_entry_vectors"],
    Table.TURNS: QUERIES["set_turn_vectors"],
}


def counts(conn: psycopg.Connection[Any]) -> list[ThemeCount]:
    """Count what each theme holds, by name."""
    (has_agents,) = conn.execute(QUERIES["has_agents"]).fetchall()[0]
    name = "counts" if has_agents else "counts_without_agents"
    return [
        ThemeCount(
            theme=Theme(theme),
            kind=_kind(kind),
            entries=entries,
            retired=retired,
            turns=turns,
            unembedded_entries=bare_entries,
            unembedded_turns=bare_turns,
            last_seen=last_seen,
        )
        for (
            theme,
            kind,
            entries,
            retired,
            turns,
            bare_entries,
            bare_turns,
            last_seen,
        ) in conn.execute(QUERIES[name])
    ]


def _kind(name: str | None) -> AgentKind | None:
    """Read a kind; one that another release wrote is as good as unknown."""
    return AgentKind(name) if name in AgentKind.__members__.values() else None


def bare(conn: psycopg.Connection[Any], table: Table) -> tuple[int, int] | None:
    """Return the first and last id of the rows without vectors; None without any."""
    first, last = conn.execute(_BARE[table]).fetchall()[0]
    return None if first is None else (first, last)


def unembedded(
    conn: psycopg.Connection[Any],
    table: Table,
    *,
    limit: int,
    after: int,
    theme: str | None,
) -> list[Unembedded]:
    """Return up to *limit* rows without vectors whose id exceeds *after*, by id."""
    parameters = {
        "limit": limit,
        "after": after,
        "theme": theme,
        "context_chars": CONTEXT_CHARS,
    }
    return read_waiting(conn.execute(_UNEMBEDDED[table], parameters))


def read_waiting(rows: Iterable[tuple[Any, ...]]) -> list[Unembedded]:
    """Read rows of id, theme, content and context."""
    return [
        Unembedded(id=row, theme=Theme(theme), content=content, context=context)
        for row, theme, content, context in rows
    ]


def hashes(rows: Sequence[Unembedded]) -> dict[str, list[bytes]]:
    """Return the hashes of their contents, and of what was embedded."""
    return {
        "content_hashes": [sha256(row.content.encode()).digest() for row in rows],
        "text_hashes": [text_hash(row.text) for row in rows],
    }


def set_vectors(
    conn: psycopg.Connection[Any],
    table: Table,
    vectors: Sequence[tuple[Unembedded, Vector]],
    *,
    model: str,
) -> int:
    """Give rows their vectors, made by *model*; return how many still wanted one."""
    stamp = read_stamp(conn, vectors_of=model)
    if stamp.model_id is None or not vectors:
        return 0
    rows = [row for row, _ in vectors]
    parameters = {
        "themes": [row.theme for row in rows],
        "ids": [row.id for row in rows],
        **hashes(rows),
        **stamp.on_all([vector for _, vector in vectors]),
    }
    return conn.execute(_SET_VECTORS[table], parameters).fetchall()[0][0]
