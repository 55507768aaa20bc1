"""Vectors that are stored already: the rows themselves are the cache of the embedder.

A row is looked up by a hash of its text, within its theme and contact. So nobody can
tell, by how long a write takes, what another theme or contact has said; nothing is
kept twice; and what is deleted is known no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, LiteralString

import psycopg

from hermes_pgmemory.models import (
    AddEntry,
    AddTurn,
    ReplaceEntry,
    Vector,
    Write,
    in_context,
)
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.turns import text_hash

Asked = tuple[int, Write, bytes]
"""A place, the write that stands there, and the hash that its row would have."""


def vectors(
    conn: psycopg.Connection[Any], writes: Sequence[Write], *, model: str | None
) -> dict[int, Vector]:
    """Return vectors by index in *writes*, of those whose text is known."""
    entries: list[Asked] = []
    turns: list[Asked] = []
    for index, write in enumerate(writes):
        match write:
            case AddEntry() | ReplaceEntry():
                digest = sha256(write.content.encode(errors="replace")).digest()
                entries.append((index, write, digest))
            case AddTurn():
                text = in_context(write.content, write.context)
                turns.append((index, write, text_hash(text)))
            case _:
                pass
    return {
        **_look_up(conn, QUERIES["known_entries"], entries, model),
        **_look_up(conn, QUERIES["known_turns"], turns, model),
    }


def _look_up(
    conn: psycopg.Connection[Any],
    query: LiteralString,
    asked: Sequence[Asked],
    model: str | None,
) -> dict[int, Vector]:
    if not asked:
        return {}
    parameters = {
        "themes": [write.theme for _, write, _ in asked],
        "subjects": [getattr(write, "subject", None) for _, write, _ in asked],
        "hashes": [digest for _, _, digest in asked],
        "model": model,
    }
    found = conn.execute(query, parameters)
    return {asked[place - 1][0]: vector for place, vector in found}
