"""What a doctor asks a database: how its server is set up, and where time goes."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.rows import TupleRow

from hermes_pgmemory.question import Question
from hermes_pgmemory.store import dsn as dsns
from hermes_pgmemory.store import failures, roles, search, vectors
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.sealed import Planner

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server, as its client sees it."""

    connect_s: float
    round_trip_s: float
    skew_s: float
    """Its clock less ours, give or take half a round trip."""
    encoding: str
    fsync: bool
    full_page_writes: bool
    max_connections: int
    is_standby: bool
    is_read_only: bool
    role: str
    lacks: str
    """The privileges that an agent needs and the role has not; "" is none."""
    extension: tuple[int, ...]
    """pgvector's version; empty where it is missing."""
    version: int
    """PostgreSQL's `server_version_num`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTime:
    """Where the time of one search went, in seconds."""

    connect_s: float
    sql_s: float
    """Waiting for the server: its work and the way there and back."""
    fuse_s: float
    """Our own: reading rows, mixing rankings."""


class _Watched(psycopg.Connection[TupleRow]):
    """A connection that knows how long it has waited for its server."""

    waited_s: float = 0.0

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Wait as usual, and look at the clock."""
        started = time.perf_counter()
        try:
            return super().wait(gen, *args, **kwargs)
        finally:
            self.waited_s += time.perf_counter() - started


def look(dsn: str) -> Server:
    """Look at a server; reads only.

    Raises:
        DatabaseUnavailable: It does not answer.
        SchemaError: It is not a database of ours.
    """
    with _connected(dsn) as (conn, connect_s):
        conn.execute(QUERIES["current_role"]).fetchall()
        started = time.perf_counter()
        sent = time.time()
        row = conn.execute(QUERIES["look_at_server"]).fetchall()[0]
        round_trip_s = time.perf_counter() - started
        return Server(
            connect_s=connect_s,
            round_trip_s=round_trip_s,
            skew_s=row[6] - (sent + round_trip_s / 2),
            encoding=row[0],
            fsync=row[1],
            full_page_writes=row[2],
            max_connections=row[3],
            is_standby=row[4],
            is_read_only=row[5],
            role=row[7],
            lacks=roles.lacking(conn, row[7]),
            extension=tuple(int(n) for n in (row[8] or "").split(".") if n.isdecimal()),
            version=row[9],
        )


def time_search(dsn: str, question: Question, *, model: str) -> SearchTime:
    """Search turns once, and tell where the time went."""
    with _connected(dsn) as (conn, connect_s), conn.transaction():
        conn.waited_s = 0.0
        started = time.perf_counter()
        search.search_turns(
            lambda: nullcontext(conn),
            question,
            session_id=None,
            planner=Planner(),
            model=model,
        )
        whole_s = time.perf_counter() - started
        return SearchTime(
            connect_s=connect_s, sql_s=conn.waited_s, fuse_s=whole_s - conn.waited_s
        )


@contextmanager
def _connected(dsn: str) -> Generator[tuple[_Watched, float]]:
    """Open a connection, and tell how many seconds that took."""
    target = dsns.parse(dsn)
    with failures.translated(target.redact):
        started = time.perf_counter()
        options: dict[str, Any] = {**target.parameters}
        with _Watched.connect(
            target.text,
            autocommit=True,
            prepare_threshold=None,
            context=vectors.adapters(),
            **options,
        ) as conn:
            yield conn, time.perf_counter() - started
