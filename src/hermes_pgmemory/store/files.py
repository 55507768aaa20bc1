"""Memory files and their rows: which file holds an entry, and which holds it no more.

A file is a state, not an event: whoever compares it with its rows, however often, ends
at the same rows. So nothing here is journaled. What must not happen is to judge rows
by a file that has changed meanwhile; every write of a theme's entries queues behind
the lock taken here, and under it the caller looks at the file once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import psycopg

from hermes_pgmemory.models import FileRow, FileVerdict, Theme
from hermes_pgmemory.store.queries import QUERIES

Judge = Callable[[Sequence[FileRow]], FileVerdict]


def rows(
    conn: psycopg.Connection[Any], ids: Sequence[str], *, replaces: bool = False
) -> list[FileRow]:
    """Return the rows of the file that is called *ids*, its own id first.

    Where it *replaces* its ancestors, they share no row with it.
    """
    leaving = ids if replaces else ids[:1]
    parameters = {"file": ids[0], "files": list(ids), "leaving": list(leaving)}
    return [
        FileRow(
            theme=Theme(theme),
            id=row,
            content=content,
            known=known,
            missing=missing,
            retired=retired,
            shared=shared,
        )
        for theme, row, content, known, missing, retired, shared in conn.execute(
            QUERIES["file_rows"], parameters
        )
    ]


def reconcile(
    conn: psycopg.Connection[Any],
    ids: Sequence[str],
    *,
    judge: Judge,
    unchanged: Callable[[], bool],
    at: datetime,
    replaces: bool = False,
) -> tuple[list[FileRow], FileVerdict | None]:
    """Bring the rows of a file in line with it; see `Store.reconcile`."""
    found = rows(conn, ids, replaces=replaces)
    verdict = judge(found)
    if verdict == FileVerdict() and not replaces:
        return found, verdict
    themes = sorted({row.theme for row in found})
    with conn.cursor() as cursor:
        cursor.executemany(QUERIES["lock_theme"], [{"theme": name} for name in themes])
    found = [row for row in rows(conn, ids, replaces=replaces) if row.theme in themes]
    if not unchanged():
        return found, None
    verdict = judge(found)
    for name, about, retire in (
        ("enter_file", verdict.present, False),
        ("leave_ancestors", found if replaces else (), False),
        ("leave_file", verdict.gone, True),
        ("leave_file", verdict.doubtful, False),
    ):
        if about:
            given = {
                "themes": [row.theme for row in about],
                "ids": [row.id for row in about],
            }
            told = {
                "file": ids[0],
                "ancestors": list(ids[1:]),
                "retire": retire,
                "at": at,
            }
            conn.execute(QUERIES[name], given | told)
    return found, verdict
