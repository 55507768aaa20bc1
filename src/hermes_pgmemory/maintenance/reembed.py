"""Move a database to another embedding model, beside living agents.

The vectors in use stay in use until all rows have new ones; then these and the active
model change in one short transaction. Cut off at any point, it has lost nothing, and
goes on when it is run again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hermes_pgmemory.embed import Embedder
from hermes_pgmemory.errors import (
    BadRequest,
    DimensionMismatch,
    SchemaError,
    Unavailable,
    UnembeddableText,
)
from hermes_pgmemory.maintenance import Advance, successors
from hermes_pgmemory.maintenance.backfill import (
    EMBED_TIMEOUT_S,
    Backfill,
    Patience,
)
from hermes_pgmemory.maintenance.shelf import Bare, Shelf
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store import Store, Table, indexing, requirements
from hermes_pgmemory.store import reembed as store
from hermes_pgmemory.store.reembed import Move, State

PASSES: Final = 10
"""Rows that are written meanwhile are found in the next pass, which is shorter."""
SAMPLE: Final = 64

opened = store.opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How to ask the model."""

    batch: int
    """Texts in one request."""
    rate: float = math.inf
    """Texts a second at most."""
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What there is to do."""

    state: State
    target: EmbeddingModel
    waiting: Mapping[Table, int]
    """Rows that need a new vector."""
    texts_per_s: float | None = None
    """How many texts a second the model managed just now."""

    @property
    def is_done(self) -> bool:
        """Whether the database has this model already."""
        return self.state.target is None and _same(self.state.active, self.target)

    @property
    def rows(self) -> int:
        """Of both tables."""
        return sum(self.waiting.values())

    @property
    def seconds(self) -> float | None:
        """How long it takes, roughly."""
        return self.rows / self.texts_per_s if self.texts_per_s else None


@dataclass(slots=True)
class Moved:
    """How far a run came."""

    embedded: int = 0
    refused: int = 0
    """Rows whose text the model refuses; they are found by their words only."""
    reason: str = ""
    """Why the first of them was refused."""
    indexed: int = 0
    """Sealed indexes that were built anew."""
    switched: bool = False
    stopped_by: Unavailable | None = None
    """What ended it early; running again goes on."""


def plan(
    move: Move, embedder: Embedder, *, dimension: int | None, manner: Manner
) -> Plan:
    """Look what is to be done, and try the model on some texts. Changes nothing.

    Raises:
        DimensionMismatch: The model's vectors have not the *dimension* asked for.
        SchemaError: An unfinished move goes elsewhere, or leftovers are in the way.
    """
    state = move.state()
    target = embedder.probe(timeout_s=EMBED_TIMEOUT_S)
    _check(state, target, dimension)
    if state.target is None and _same(state.active, target):
        return Plan(state=state, target=target, waiting=dict.fromkeys(Table, 0))
    waiting = (
        {table: move.waiting(table)[0] for table in Table}
        if state.target
        else move.total()
    )
    speed = min(manner.rate, _speed(embedder, move.sample(min(SAMPLE, manner.batch))))
    return Plan(state=state, target=target, waiting=waiting, texts_per_s=speed)


def _same(one: EmbeddingModel | None, other: EmbeddingModel) -> bool:
    return one is not None and (one.name, one.dimension) == (
        other.name,
        other.dimension,
    )


def _check(state: State, target: EmbeddingModel, dimension: int | None) -> None:
    if dimension not in {None, target.dimension}:
        raise BadRequest(
            f"{target.name} makes vectors of {target.dimension} dimensions, not "
            f"{dimension}"
        )
    if target.dimension > requirements.MAX_DIMENSION:
        raise DimensionMismatch(
            expected=requirements.MAX_DIMENSION, got=target.dimension
        )
    if state.active is None:
        raise SchemaError(
            "the database has no embedding model: run `hermes-pgvector migrate`"
        )
    if state.target is not None and not _same(state.target, target):
        raise SchemaError(
            f"a move to {state.target.name} ({state.target.dimension} dimensions) has "
            "begun: finish it with --to, or take it back with --abort"
        )
    if state.has_old and not _same(state.active, target):
        raise SchemaError(
            "the vectors that the last move replaced are still there: drop them with "
            "`hermes-pgvector reembed --drop-old --execute` first"
        )


def _speed(embedder: Embedder, texts: list[str]) -> float:
    """Return how many texts a second the model manages; infinite without a text."""
    if not texts:
        return math.inf
    started = time.monotonic()
    embedder.embed_documents(texts, timeout_s=EMBED_TIMEOUT_S)
    return len(texts) / max(time.monotonic() - started, 1e-6)


class Reembed:
    """One run."""

    def __init__(
        self, move: Move, embedder: Embedder, manner: Manner, *, dsn: str
    ) -> None:
        """Use *move*, opened on *dsn*, and the *embedder* of the model it goes to."""
        self._move = move
        self._dsn = dsn
        self._embedder = embedder
        self._manner = manner
        self.moved = Moved()

    def run(self, planned: Plan, *, late: Store, advance: Advance) -> Moved:
        """Do it, or what is left of it.

        Args:
            planned: What `plan` said.
            late: Of the new model: for what was written while the models changed.
            advance: Told of progress.

        Raises:
            DatabaseUnavailable: A lock was not to be had; running again goes on.
            UnembeddableText: The model refuses most texts; nothing was switched.
        """
        if not planned.is_done:
            if planned.state.target is None:
                self._move.begin(planned.target)
            self._move.index()
            if not self._fill(self._move, advance):
                return self.moved
            self._check_yield()
            with indexing.opened(self._dsn) as run:
                self.moved.indexed = len(successors.build(run))
                self._move.switch()
            self.moved.switched = True
        self._fill(Bare(late), advance)
        return self.moved

    def _fill(self, shelf: Shelf, advance: Advance) -> bool:
        """Embed what waits, and what is written meanwhile, but for a last batch."""
        for _ in range(PASSES):
            manner = self._manner
            work = Backfill(
                shelf,
                self._embedder,
                batch=manner.batch,
                patience=manner.patience,
                rate=manner.rate,
            )
            done = work.run(advance)
            self.moved.embedded += done.embedded
            self.moved.refused = done.refused
            self.moved.reason = done.reason
            self.moved.stopped_by = done.stopped_by
            if done.stopped_by is not None:
                return False
            if done.embedded <= self._manner.batch:
                break
        return True

    def _check_yield(self) -> None:
        missing = sum(self._move.waiting(table)[0] for table in Table)
        total = sum(self._move.total().values())
        if self.moved.refused * 2 > total and missing * 2 > total:
            raise UnembeddableText(
                f"the model refuses {self.moved.refused} of {total} texts, the first: "
                f"{self.moved.reason}; nothing was switched, --abort takes it back"
            )
