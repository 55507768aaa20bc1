"""Build and drop sealed indexes; `maintenance.index` decides which.

An administrator's act: it needs the tables' owner, and a connection that is not in a
pool, because building beside living agents is no transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg import errors as pg

from hermes_pgmemory.errors import PgMemoryError, SchemaError
from hermes_pgmemory.store import migrate, online, runlog
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.upkeep import NAMED, NAMES, Table

LIMITS: Final = {"halfvec": 4_000, "vector": 2_000}
"""Components beyond which pgvector builds no index."""
NODE_BYTES: Final = 500
"""Of a row in the graph that a build keeps in memory, beside its vector."""
LEAST_KB: Final = 64 * 1024
POLL_S: Final = 0.5
NEXT: Final = "embedding_next"
"""Where a move to another model puts its vectors; see `store.reembed`."""
NEXT_SUFFIX: Final = "_next"
"""Of the names of indexes over these, until the move is done."""

_THEMES: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["index_themes_entries"],
    Table.TURNS: QUERIES["index_themes_turns"],
}
TAILS: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["index_tail_entries"],
    Table.TURNS: QUERIES["index_tail_turns"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The vectors of one table."""

    table: Table
    kind: str
    """halfvec, or vector."""
    dimension: int
    name: str = "embedding"

    @property
    def can_be_indexed(self) -> bool:
        """Tell whether pgvector builds indexes over vectors of this length."""
        return self.dimension <= LIMITS.get(self.kind, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index that bears a name of ours."""

    table: Table
    name: str
    valid: bool
    """Whether it is complete; if not, its build was cut off."""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What of a theme can be indexed."""

    theme: str
    rows: int
    """Rows with a vector."""
    last_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one build may use."""

    memory_kb: int
    workers: int
    """Beside the session's own process."""


class Indexing:
    """One run, on the connection of the tables' owner."""

    def __init__(self, conn: psycopg.Connection[Any], dsn: str) -> None:
        """Act on *conn*, which is in autocommit mode; watch it from another."""
        self._conn = conn
        self._dsn = dsn

    def columns(self, name: str = "embedding") -> list[Column]:
        """Look at the vectors of both tables, entries first.

        Args:
            name: Of the column: `embedding`, or `NEXT` while a move is under way.
        """
        found = self._conn.execute(QUERIES["index_columns"], {"column": name})
        return [
            Column(table=NAMED[table], kind=kind, dimension=dimension, name=name)
            for table, kind, dimension in found
        ]

    def indexes(self, column: str = "embedding") -> list[Index]:
        """Return every index of ours over one column of either table."""
        found = self._conn.execute(QUERIES["index_list"], {"column": column})
        return [
            Index(table=NAMED[table], name=name, valid=valid, bytes=size)
            for table, name, valid, size in found
        ]

    def themes(self, table: Table) -> list[Filled]:
        """Count the vectors of every theme. Reads the whole table."""
        return [
            Filled(theme=theme, rows=rows, last_id=last)
            for theme, rows, last in self._conn.execute(_THEMES[table])
        ]

    def tail(self, table: Table, theme: str | None, watermark: int) -> int:
        """Count the vectors behind a watermark."""
        parameters = {"theme": theme, "watermark": watermark, "most": None}
        return self._conn.execute(TAILS[table], parameters).fetchall()[0][0]

    def resources(
        self, column: Column, rows: int, *, memory_mb: int, workers: int
    ) -> Resources:
        """Decide what a build of *rows* may use.

        As much memory as its graph needs, up to *memory_mb* or to what the server
        grants anyway; and *workers*, as far as the server has them.
        """
        own, most = self._conn.execute(QUERIES["index_resources"]).fetchall()[0]
        width = {"halfvec": 2, "vector": 4}[column.kind] * column.dimension
        needed = rows * (width + NODE_BYTES) * 5 // 4 // 1024
        limit = max(own, memory_mb * 1024)
        return Resources(
            memory_kb=max(LEAST_KB, min(needed, limit)),
            workers=max(0, min(workers, most)),
        )

    def build(
        self,
        column: Column,
        name: str,
        *,
        theme: str | None,
        watermark: int,
        resources: Resources,
        told: Callable[[int], None],
    ) -> None:
        """Build one index beside living agents; *told* hears how many rows are in.

        Cut off, it leaves an index that is not valid, which `drop` takes away.
        """
        parameters = {
            "name": name,
            "table": NAMES[column.table],
            "column": column.name,
            "operators": f"{column.kind}_cosine_ops",
            "theme": theme,
            "watermark": watermark,
        }
        settings = {
            "memory": f"{resources.memory_kb}kB",
            "workers": f"{resources.workers}",
        }
        self._conn.execute(QUERIES["begin_build"], settings)
        try:
            with self._watched(told):
                self._run(QUERIES["write_build"], parameters)
        finally:
            if not self._conn.broken:
                self._conn.execute(QUERIES["end_build"])

    def drop(self, name: str) -> None:
        """Drop one index; searches under way go on."""
        self._run(QUERIES["write_drop"], {"name": name})

    def log(self, table: Table, pattern: str | None, rows: int, **details: Any) -> None:
        """Add a line to the maintenance log."""
        run = runlog.open_run(self._conn, "index", NAMES[table], pattern=pattern)
        done = {"finished": True, **details}
        runlog.add_to_run(self._conn, run, affected=rows, details=done)

    def _run(self, writer: LiteralString, parameters: dict[str, Any]) -> None:
        statement = self._conn.execute(writer, parameters).fetchall()[0][0]
        # Written by a statement of this package, which quotes what it was given.
        self._conn.execute(cast("LiteralString", statement))

    @contextmanager
    def _watched(self, told: Callable[[int], None]) -> Generator[None]:
        over = Event()
        pid = self._conn.info.backend_pid
        watcher = Thread(
            target=_watch, args=(self._dsn, pid, told, over), name="index-progress"
        )
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _watch(dsn: str, pid: int, told: Callable[[int], None], over: Event) -> None:
    """Tell how far a build is until it is over; or not, where nobody can say."""
    try:
        with migrate.connect(dsn) as conn:
            while not over.wait(POLL_S):
                for phase, done in conn.execute(
                    QUERIES["index_progress"], {"pid": pid}
                ):
                    if (phase or "").startswith("building"):
                        told(done or 0)
    except PgMemoryError:
        return  # the build itself will tell what is wrong, if something is


@contextmanager
def opened(dsn: str) -> Generator[Indexing]:
    """Open a database for one run at a time; raises what `online.opened` does."""
    lock = QUERIES["lock_indexing"]
    with online.opened(
        dsn, "index", lock=lock, rival="`hermes-pgvector index`"
    ) as conn:
        try:
            yield Indexing(conn, dsn)
        except pg.DiskFull as exc:
            raise SchemaError(
                f"{exc.diag.message_primary}: give the server more room (in a "
                "container, a larger --shm-size), or run this with --workers 0"
            ) from exc
