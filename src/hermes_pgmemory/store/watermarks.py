"""How far the sealed indexes reach; see `sealed`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import psycopg

from hermes_pgmemory.store import sealed
from hermes_pgmemory.store.indexing import TAILS
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.upkeep import NAMED, Table

MOST_BEHIND: Final = 50_000
"""Vectors behind a watermark after which counting stops."""


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
    known = conn.execute(QUERIES["index_list"], {"column": "embedding"}).fetchall()
    if not known:
        return []
    stored = conn.execute(QUERIES["stored_themes"]).fetchall()
    themes: dict[str, str | None] = {sealed.mark_of(name): name for (name,) in stored}
    themes[sealed.ALL] = None
    found: list[SealedIndex] = []
    for name, index, valid, size in known:
        table, parsed = NAMED[name], sealed.parse_name(index)
        # An index of a theme that has no row any more serves nobody.
        if not valid or parsed is None or parsed[0] not in themes:
            continue
        theme, watermark = themes[parsed[0]], parsed[1]
        asked = {"theme": theme, "watermark": watermark, "most": MOST_BEHIND}
        [(tail,)] = conn.execute(TAILS[table], asked).fetchall()
        found.append(
            SealedIndex(
                table=table, theme=theme, watermark=watermark, tail=tail, bytes=size
            )
        )
    return found
