"""Memory entries: the mirror of what the host's own store did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, assert_never

import psycopg
from psycopg.types.json import Jsonb

from hermes_pgmemory.models import AddEntry, RemoveEntry, ReplaceEntry, Vector
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.vectors import Stamp

EntryWrite = AddEntry | ReplaceEntry | RemoveEntry
Step = tuple[str, Mapping[str, Any]]
"""A statement's name and its parameters."""


def write(
    conn: psycopg.Connection[Any],
    writes: Sequence[tuple[EntryWrite, Vector | None]],
    stamp: Stamp,
) -> None:
    """Apply *writes*, each with the vector of its content, in their order.

    Concurrent writers of a theme queue here until the transaction ends: what a
    replacement finds must still be there when it writes.
    """
    themes = sorted({write.theme for write, _ in writes})
    lexemes = _lexemes(conn, writes, stamp)
    with conn.cursor() as cursor:
        cursor.executemany(QUERIES["lock_theme"], [{"theme": name} for name in themes])
        for name, run in groupby(_steps(writes, stamp, lexemes), key=itemgetter(0)):
            cursor.executemany(QUERIES[name], [parameters for _, parameters in run])


def _lexemes(
    conn: psycopg.Connection[Any],
    writes: Sequence[tuple[EntryWrite, Vector | None]],
    stamp: Stamp,
) -> Mapping[str, str]:
    """Return the words of every content that is not ASCII alone."""
    contents = [
        write.content
        for write, _ in writes
        if not isinstance(write, RemoveEntry) and not write.content.isascii()
    ]
    if not contents:
        return {}
    parameters = {"config": stamp.config, "contents": contents}
    rows = conn.execute(QUERIES["lexemes_of"], parameters).fetchall()
    return dict(zip(contents, (row[0] for row in rows), strict=True))


def _steps(
    writes: Sequence[tuple[EntryWrite, Vector | None]],
    stamp: Stamp,
    lexemes: Mapping[str, str],
) -> Iterator[Step]:
    for write, vector in writes:
        match write:
            case AddEntry():
                yield "add_entry", {**_row(write, lexemes), **stamp.on(vector)}
            case ReplaceEntry():
                row = {**_row(write, lexemes), **stamp.on(vector)}
                if match := _match(write):
                    yield "replace_entry", {**row, **match}
                else:
                    yield "add_entry", row
            case RemoveEntry():
                # Without a text to match, every entry would match.
                if match := _match(write):
                    yield "remove_entry", {**_event(write), **match}
            case _:
                assert_never(write)


def _event(write: EntryWrite) -> dict[str, Any]:
    return {
        "theme": write.theme,
        "target": write.target.value,
        "subject": write.subject,
        "source": write.source,
        "at": write.at,
        "metadata": Jsonb(dict(write.metadata)),
    }


def _row(write: AddEntry | ReplaceEntry, lexemes: Mapping[str, str]) -> dict[str, Any]:
    return {
        **_event(write),
        "content": write.content,
        "lexemes": lexemes.get(write.content),
        "files": [write.source] if write.source else [],
    }


def _match(write: ReplaceEntry | RemoveEntry) -> dict[str, Any] | None:
    """Return what identifies the entry, or None if nothing does."""
    if write.previous:
        return {"previous": write.previous, "old_text": ""}
    if write.old_text.strip():
        return {"previous": None, "old_text": write.old_text}
    return None
