"""Looks past everything at what a database holds, as often as one who waits likes to.

A connection costs the server more than most questions, so the last one stays open.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg
from psycopg.pq import ExecStatus

_open: dict[str, psycopg.Connection[Any]] = {}
"""At most one, by its DSN; the main thread's, or whoever waits held others up."""


def _connect(dsn: str) -> psycopg.Connection[Any]:
    # What a table looks like changes in between.
    return psycopg.connect(dsn, autocommit=True, prepare_threshold=None)


def _asked(
    conn: psycopg.Connection[Any], statement: Any, parameters: Any
) -> list[tuple[Any, ...]]:
    cursor = conn.execute(statement, parameters)
    # A row may have no columns at all.
    told = cursor.pgresult and cursor.pgresult.status == ExecStatus.TUPLES_OK
    return cursor.fetchall() if told else []


def look(dsn: str, statement: Any, parameters: Any = None) -> list[tuple[Any, ...]]:
    """Run *statement* by itself, and return its rows.

    Raises:
        psycopg.Error: As if the connection were a new one.
    """
    if threading.current_thread() is not threading.main_thread():
        with _connect(dsn) as conn:
            return _asked(conn, statement, parameters)
    if dsn in _open:
        try:
            return _asked(_open[dsn], statement, parameters)
        except psycopg.OperationalError:
            if not _open[dsn].broken:
                raise
    leave()
    _open[dsn] = _connect(dsn)
    return _asked(_open[dsn], statement, parameters)


def column(dsn: str, statement: Any, parameters: Any = None) -> list[Any]:
    """Do the same; rows of one column come as a plain list."""
    rows = look(dsn, statement, parameters)
    return [row[0] if len(row) == 1 else row for row in rows]


def leave() -> None:
    """Close the connection, as who clones or drops its database must."""
    while _open:
        _open.popitem()[1].close()
