"""How far the sealed indexes reach; see `sealed`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from hermes_pgmemory.store import sealed
from hermes_pgmemory.store.indexing import TABLES
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.upkeep import Table

MOST_BEHIND: Final = 50_000
"""Vectors behind a watermark after which counting stops."""

_BEHIND: Final[Mapping[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["behind_entries"],
    Table.TURNS: QUERIES["behind_turns"],
}
_THEMES: Final[Mapping[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["themes_of_entries"],
    Table.TURNS: QUERIES["themes_of_turns"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedIndex:
    """One complete index."""

    table: Table
    theme: str | None
    """Whose rows it holds; None are all themes'."""
    watermark: int
    """The last id in it."""
    tail: int
    """Vectors behind it, which searches read one by one; at most `MOST_BEHIND`."""
    bytes: int


def read(conn: psycopg.Connection[Any]) -> list[SealedIndex]:
    """Return every sealed index that serves searches, by table and name."""
    found: list[SealedIndex] = []
    themes: dict[Table, dict[str, str | None]] = {}
    for name, index, valid, size in conn.execute(
        QUERIES["index_list"], {"column": "embedding"}
    ).fetchall():
        table, parsed = TABLES[name], sealed.parse_name(index)
        if not valid or parsed is None:
            continue
        if table not in themes:
            names = conn.execute(_THEMES[table]).fetchall()
            themes[table] = {sealed.mark_of(theme): theme for (theme,) in names}
            themes[table][sealed.ALL] = None
        mark, watermark = parsed
        # An index of a theme that has no row any more serves nobody.
        if mark not in themes[table]:
            continue
        theme = themes[table][mark]
        asked = {"theme": theme, "watermark": watermark, "most": MOST_BEHIND}
        [(tail,)] = conn.execute(_BEHIND[table], asked).fetchall()
        found.append(
            SealedIndex(
                table=table, theme=theme, watermark=watermark, tail=tail, bytes=size
            )
        )
    return found
