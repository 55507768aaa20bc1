"""Embed the rows that were stored without a vector, for an operator who waits.

Agents heal their own rows by and by; this does all of them now. Nothing is locked
while the model thinks, and a row that was changed meanwhile is left alone, so it may
run beside any number of agents, and twice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hermes_pgmemory.embed import Embedder
from hermes_pgmemory.errors import (
    DatabaseUnavailable,
    DimensionMismatch,
    EmbedderUnavailable,
    ModelMismatch,
    PgMemoryError,
    SchemaError,
    Unavailable,
    UnembeddableText,
    UnstorableWrite,
)
from hermes_pgmemory.maintenance import PART_TIMEOUT_S, Advance
from hermes_pgmemory.maintenance.shelf import Shelf
from hermes_pgmemory.models import EmbeddingModel, Vector
from hermes_pgmemory.store import Store, Table, Unembedded

EMBED_TIMEOUT_S: Final = 60.0
"""For one request: the first may start and load the local model."""
LONGEST_PAUSE_S: Final = 10.0
"""An endpoint that asks for more is tried again by running again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often a request is tried again, and how long to wait before, in seconds."""

    retries: int = 2
    pause_s: float = 0.1


@dataclass(slots=True)
class Tally:
    """What became of one table's rows."""

    waiting: int = 0
    """Rows without a vector when it began."""
    last: int = 0
    """The id of the last of them."""
    embedded: int = 0
    refused: int = 0
    """Rows whose text the model refuses; they are found by their words only."""


@dataclass(slots=True)
class Backfilled:
    """How far a run came."""

    tables: Mapping[Table, Tally]
    reason: str = ""
    """Why the first of the refused texts was refused."""
    stopped_by: Unavailable | None = None
    """What ended it early; running again goes on."""

    @property
    def embedded(self) -> int:
        """Rows of both tables."""
        return sum(tally.embedded for tally in self.tables.values())

    @property
    def refused(self) -> int:
        """Texts of both tables."""
        return sum(tally.refused for tally in self.tables.values())


def check_model(store: Store, embedder: Embedder) -> EmbeddingModel:
    """Return the database's model, if the configured one is the same.

    Raises:
        ModelMismatch: It is another.
        DimensionMismatch: Its vectors have another length than the database's.
        SchemaError: The database has none.
    """
    stored = store.verify(timeout_s=PART_TIMEOUT_S).model
    if stored is None:
        raise SchemaError(
            "the database has no embedding model: run `hermes-pgvector migrate`"
        )
    if stored.name != embedder.name:
        raise ModelMismatch(database=stored.name, configured=embedder.name)
    got = embedder.probe(timeout_s=EMBED_TIMEOUT_S).dimension
    if got != stored.dimension:
        raise DimensionMismatch(expected=stored.dimension, got=got)
    return stored


class Backfill:
    """One run over both tables."""

    def __init__(
        self,
        shelf: Shelf,
        embedder: Embedder,
        *,
        batch: int,
        patience: Patience,
        rate: float = math.inf,
    ) -> None:
        """Count what waits for a vector.

        Args:
            shelf: Where the rows are.
            embedder: Of the model that the shelf's vectors come from.
            batch: Texts in one request, at least 1.
            patience: With an embedder that does not answer.
            rate: Texts a second at most.
        """
        self._shelf = shelf
        self._embedder = embedder
        self._batch = max(1, min(batch, int(rate))) if rate < batch else batch
        self._patience = patience
        self._rate = rate
        self.outcome = Backfilled(
            {table: Tally(*shelf.waiting(table)) for table in Table}
        )

    @property
    def waiting(self) -> int:
        """How many rows waited when it began."""
        return sum(tally.waiting for tally in self.outcome.tables.values())

    def run(self, advance: Advance) -> Backfilled:
        """Embed what waited when it began, unless something does not answer."""
        try:
            for table, tally in self.outcome.tables.items():
                self._run(table, tally, advance)
        except Unavailable as exc:
            self.outcome.stopped_by = exc
        return self.outcome

    def _run(self, table: Table, tally: Tally, advance: Advance) -> None:
        if not tally.waiting:
            return
        line = self._shelf.open_run(table)
        for rows in self._batches(table, tally.last):
            started = time.monotonic()
            self._do(table, tally, rows, line)
            advance(len(rows))
            pause_s = len(rows) / self._rate - (time.monotonic() - started)
            if pause_s > 0:
                time.sleep(pause_s)
        self._shelf.add_to_run(
            line, details={"finished": True, "refused": tally.refused}
        )

    def _do(
        self, table: Table, tally: Tally, rows: Sequence[Unembedded], line: int
    ) -> None:
        answers = self._embed_rows(rows)
        vectors: list[tuple[Unembedded, Vector]] = []
        for row, answer in zip(rows, answers, strict=True):
            if isinstance(answer, UnembeddableText):
                self._refuse(tally, answer)
            else:
                vectors.append((row, answer))
        embedded = self._keep(table, tally, vectors)
        tally.embedded += embedded
        self._shelf.add_to_run(line, affected=embedded, details={})

    def _refuse(self, tally: Tally, why: PgMemoryError) -> None:
        tally.refused += 1
        self.outcome.reason = self.outcome.reason or str(why)

    def _embed_rows(
        self, rows: Sequence[Unembedded]
    ) -> Sequence[Vector | UnembeddableText]:
        """Embed each row in its context; alone, if the two together are refused."""
        answers = list(self._embed([row.text for row in rows]))
        again = [
            place
            for place, answer in enumerate(answers)
            if isinstance(answer, UnembeddableText) and rows[place].context
        ]
        if again:
            alone = self._embed([rows[place].content for place in again])
            for place, answer in zip(again, alone, strict=True):
                answers[place] = answer
        return answers

    def _embed(self, texts: Sequence[str]) -> Sequence[Vector | UnembeddableText]:
        pause_s = self._patience.pause_s
        for left in range(self._patience.retries, -1, -1):
            try:
                return self._embedder.embed_documents(texts, timeout_s=EMBED_TIMEOUT_S)
            except EmbedderUnavailable as exc:
                wait_s = exc.retry_after_s or pause_s
                if not left or wait_s > LONGEST_PAUSE_S:
                    raise
                time.sleep(wait_s)
                pause_s *= 2
        raise AssertionError("the loop returns or raises")

    def _keep(
        self,
        table: Table,
        tally: Tally,
        vectors: Sequence[tuple[Unembedded, Vector]],
    ) -> int:
        """Store *vectors*; halve them around one that PostgreSQL refuses."""
        if not vectors:
            return 0
        try:
            return self._set(table, vectors)
        except UnstorableWrite as exc:
            if len(vectors) == 1:
                self._refuse(tally, exc)
                return 0
        half = len(vectors) // 2
        return self._keep(table, tally, vectors[:half]) + self._keep(
            table, tally, vectors[half:]
        )

    def _set(self, table: Table, vectors: Sequence[tuple[Unembedded, Vector]]) -> int:
        try:
            return self._shelf.set_vectors(table, vectors)
        except DatabaseUnavailable:
            # Most likely a writer was in the way, and has finished by now.
            return self._shelf.set_vectors(table, vectors)

    def _batches(self, table: Table, last: int) -> Iterator[Sequence[Unembedded]]:
        """Yield what waited when it began, each row once.

        Refused rows would come back for ever, and so would new ones, where agents
        leave the embedding to this command and write faster than the model reads.
        """
        after = 0
        while after < last:
            found = self._shelf.unembedded(table, limit=self._batch, after=after)
            rows = [row for row in found if row.id <= last]
            if not rows:
                return
            yield rows
            after = rows[-1].id
