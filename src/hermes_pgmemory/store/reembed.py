"""The steps from one embedding model to another; `maintenance.reembed` orders them.

A move needs the tables' owner. Every step may be cut off, and done again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final, LiteralString

import psycopg

from hermes_pgmemory.errors import SchemaError
from hermes_pgmemory.models import CONTEXT_CHARS, EmbeddingModel, Vector
from hermes_pgmemory.store import failures, online, runlog, vectors
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.upkeep import (
    NAMES,
    Table,
    Unembedded,
    hashes,
    read_waiting,
)

Queries = Mapping[Table, LiteralString]

_WAITING: Final[Queries] = {
    Table.ENTRIES: QUERIES["waiting_next_entries"],
    Table.TURNS: QUERIES["waiting_next_turns"],
}
_UNEMBEDDED: Final[Queries] = {
    Table.ENTRIES: QUERIES["unembedded_next_entries"],
    Table.TURNS: QUERIES["unembedded_next_turns"],
}
_SET: Final[Queries] = {
    Table.ENTRIES: QUERIES["set_next_entries"],
    Table.TURNS: QUERIES["set_next_turns"],
}
_PROVE: Final[Queries] = {
    Table.ENTRIES: QUERIES["prove_next_entries"],
    Table.TURNS: QUERIES["prove_next_turns"],
}
_DROP_INDEX: Final[Queries] = {
    Table.ENTRIES: QUERIES["drop_next_index_entries"],
    Table.TURNS: QUERIES["drop_next_index_turns"],
}
_CREATE_INDEX: Final[Queries] = {
    Table.ENTRIES: QUERIES["create_next_index_entries"],
    Table.TURNS: QUERIES["create_next_index_turns"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How far a move is."""

    active: EmbeddingModel | None
    """Whose vectors are compared."""
    target: EmbeddingModel | None
    """Where an unfinished move goes."""
    has_old: bool
    """Whether the vectors that the last move replaced are still there."""


class Move:
    """One run, on the connection of the tables' owner."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        """Act on *conn*, which is in autocommit mode."""
        self._conn = conn
        vectors.teach(conn.adapters)
        self._halfvec_oid: int = conn.execute(QUERIES["settings"]).fetchall()[0][3]

    def state(self) -> State:
        """Look how far it is.

        Raises:
            SchemaError: A conversion was cut off; the two cannot be in one another.
        """
        row = self._conn.execute(QUERIES["reembed_state"]).fetchall()[0]
        if row[2]:
            raise SchemaError(
                "a conversion was cut off: finish `hermes-pgvector convert` first"
            )
        models = {
            key: EmbeddingModel(
                name=name, dimension=dimension, query_prefix=query, document_prefix=doc
            )
            for key, name, dimension, query, doc in self._conn.execute(
                QUERIES["reembed_models"]
            )
        }
        return State(
            active=models.get("active_model_id"),
            target=models.get("next_model_id"),
            has_old=row[1],
        )

    def total(self) -> dict[Table, int]:
        """Count the rows that have or want a vector."""
        entries, turns = self._conn.execute(QUERIES["reembed_total"]).fetchall()[0]
        return {Table.ENTRIES: entries, Table.TURNS: turns}

    def sample(self, limit: int) -> list[str]:
        """Return up to *limit* texts."""
        rows = self._conn.execute(QUERIES["reembed_sample"], {"limit": limit})
        return [text for (text,) in rows]

    def begin(self, target: EmbeddingModel) -> None:
        """Add the second pair of columns, for vectors of *target*."""
        self._briefly(
            (QUERIES["begin_reembed"], None),
            (QUERIES["add_model"], asdict(target)),
            (QUERIES["set_next_model"], asdict(target)),
            dimension=target.dimension,
        )

    def index(self) -> None:
        """Index the rows that still wait, or finish that; blocks nobody."""
        broken = {
            name for (name,) in self._conn.execute(QUERIES["broken_next_indexes"])
        }
        for table in Table:
            if f"ix_{NAMES[table]}_unembedded_next" in broken:
                self._conn.execute(_DROP_INDEX[table])
            self._conn.execute(_CREATE_INDEX[table])

    def switch(self) -> None:
        """Let the pairs change places: from now on the target is the active model."""
        for table in Table:
            self._conn.execute(_PROVE[table])
        self._briefly((QUERIES["switch_reembed"], None))
        self._conn.execute(QUERIES["analyze_reembedded"])

    def abort(self) -> None:
        """Take back what was begun."""
        self._briefly((QUERIES["abort_reembed"], None))

    def drop_old(self) -> None:
        """Drop the vectors that the last move replaced."""
        self._briefly((QUERIES["drop_old_vectors"], None))

    # -- rows, as `maintenance.backfill` takes them ----------------------------

    def waiting(self, table: Table) -> tuple[int, int]:
        """Return how many rows have no next vector, and the last one's id."""
        row = self._conn.execute(_WAITING[table]).fetchall()[0]
        return row[0], row[1]

    def unembedded(self, table: Table, *, limit: int, after: int) -> list[Unembedded]:
        """Return up to *limit* of them whose id exceeds *after*, by id."""
        parameters = {"limit": limit, "after": after, "context_chars": CONTEXT_CHARS}
        with failures.translated(str):
            return read_waiting(self._conn.execute(_UNEMBEDDED[table], parameters))

    def set_vectors(
        self, table: Table, given: Sequence[tuple[Unembedded, Vector]]
    ) -> int:
        """Give rows their next vectors; return how many still wanted one.

        Raises:
            DatabaseUnavailable: A writer was in the way; try again.
            UnstorableWrite: PostgreSQL refuses one of the vectors.
        """
        rows = [row for row, _ in given]
        with failures.translated(str), self._conn.transaction():
            parameters = {
                "themes": [row.theme for row in rows],
                "ids": [row.id for row in rows],
                **hashes(rows),
                "embeddings": vectors.many(
                    self._halfvec_oid, [vector for _, vector in given]
                ),
            }
            return self._conn.execute(_SET[table], parameters).fetchall()[0][0]

    def open_run(self, table: Table) -> int:
        """Start a line of the log and return its id."""
        return runlog.open_run(self._conn, "reembed", NAMES[table])

    def add_to_run(
        self, run: int, *, affected: int = 0, details: Mapping[str, Any]
    ) -> None:
        """Add rows to a line of the log."""
        runlog.add_to_run(self._conn, run, affected=affected, details=details)

    def _briefly(self, *steps: online.Step, dimension: int = 0) -> None:
        limit = (QUERIES["limit_reembed"], {"dimension": dimension})
        online.briefly(self._conn, limit, *steps)


@contextmanager
def opened(dsn: str) -> Generator[Move]:
    """Open a database for one move; raises what `online.opened` does."""
    with online.opened(dsn, "reembed") as conn:
        yield Move(conn)
