"""Giving vectors to rows that were stored without, while nothing else is to be done."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from typing import Final

from hermes_pgmemory.batcher import Batcher
from hermes_pgmemory.errors import (
    DimensionMismatch,
    ModelMismatch,
    PgMemoryError,
    UnstorableWrite,
)
from hermes_pgmemory.models import Vector
from hermes_pgmemory.store import Store, Table, Unembedded

TIMEOUT_S: Final = 5.0
HEAL_BATCH: Final = 32
HEAL_EVERY_S: Final = 30.0

log = logging.getLogger("hermes_pgmemory")


class _Round:
    """One walk over a table: from some row to the last, then from the first to it."""

    def __init__(self, start: int) -> None:
        self.start = self.passed = start
        self.wrapped = False


class Healer:
    """Embeds, batch by batch, rows that were stored while the embedder was down.

    One round over the database when a process starts, for what others left, and one
    whenever this process stored rows without vectors. All processes of a fleet notice
    at once that an embedder is back, so each begins somewhere else: what it meets that
    others have done, it passes.
    """

    def __init__(
        self,
        store: Store,
        batcher: Batcher,
        *,
        when_misfit: Callable[[DimensionMismatch | ModelMismatch], None],
    ) -> None:
        """Take rows from *store* and vectors from *batcher*.

        *when_misfit* is told that the database does not take the model's vectors.
        """
        self._store = store
        self._batcher = batcher
        self._when_misfit = when_misfit
        self._healed_to = -1
        self._rounds: dict[Table, _Round] = {}

    def begin_anew(self) -> None:
        """Offer every row again: the model is another one now."""
        self._healed_to = -1
        self._rounds.clear()

    def run(self) -> float | None:
        """Heal one batch; return the seconds after which to go on, if any are left."""
        bare = self._batcher.bare
        if bare == self._healed_to:
            return None
        for table in Table:
            if rows := self._next(table):
                return self._heal(table, rows)
        self._rounds.clear()
        self._healed_to = bare
        return None

    def _next(self, table: Table) -> Sequence[Unembedded]:
        """Return the next rows of this round, none at its end."""
        if table not in self._rounds:
            span = self._store.bare(table, timeout_s=TIMEOUT_S)
            if span is None:
                return ()
            start = random.randrange(span[0] - 1, span[1])  # noqa: S311 - no secret
            self._rounds[table] = _Round(start)
        round_ = self._rounds[table]
        rows = self._after(table, round_.passed)
        if not rows and not round_.wrapped:
            round_.wrapped, round_.passed = True, 0
            rows = self._after(table, 0)
        return [row for row in rows if not round_.wrapped or row.id <= round_.start]

    def _after(self, table: Table, place: int) -> Sequence[Unembedded]:
        return self._store.unembedded(
            table, limit=HEAL_BATCH, after=place, timeout_s=TIMEOUT_S
        )

    def _heal(self, table: Table, rows: Sequence[Unembedded]) -> float:
        vectors = self._batcher.embed([row.text for row in rows])
        if vectors is None:
            return HEAL_EVERY_S
        healed = [
            (row, vector)
            for row, vector in zip(rows, vectors, strict=True)
            if not isinstance(vector, PgMemoryError)
        ]
        self._keep(table, healed)
        # A text the model refuses is not offered again in this round.
        self._rounds[table].passed = rows[-1].id
        return 0.0

    def _keep(self, table: Table, healed: Sequence[tuple[Unembedded, Vector]]) -> None:
        """Store vectors; halve them around one that the database refuses."""
        try:
            self._store.set_vectors(table, healed, timeout_s=TIMEOUT_S)
        except (DimensionMismatch, ModelMismatch) as exc:
            self._when_misfit(exc)
        except UnstorableWrite as exc:
            if len(healed) == 1:
                log.warning("a vector was refused: %s", exc)
                return
            half = len(healed) // 2
            self._keep(table, healed[:half])
            self._keep(table, healed[half:])
