"""Whether the database's vectors and the configured model's can be compared.

`reembed` moves a database to another model while agents run. So a process looks again:
at once when the database refuses its vectors, and every now and then while it recalls
or does without vectors.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from hermes_pgmemory.embed import Embedder
from hermes_pgmemory.errors import (
    DimensionMismatch,
    EmbedderUnavailable,
    ModelMismatch,
)
from hermes_pgmemory.models import EmbeddingModel

AGAIN_S: Final = 30.0
"""Seconds between two looks."""
PROBE_TIMEOUT_S: Final = 5.0

log = logging.getLogger("hermes_pgmemory")


class ModelWatch:
    """What one process knows of the active model. Thread-safe."""

    def __init__(self, embedder: Embedder) -> None:
        """Judge vectors of *embedder*, which is asked only about a wrong length."""
        self._embedder = embedder
        self._wrong_length = False
        self._recalled = False
        self._looked_at = 0.0
        self.reason: str | None = None
        """Why vectors cannot be compared or stored; None where they can."""

    def recalling(self) -> None:
        """Be told that somebody asks: it matters now which model is active."""
        self._recalled = True

    def refused(self, mismatch: DimensionMismatch | ModelMismatch) -> None:
        """Be told that the database does not take our vectors."""
        self._wrong_length = isinstance(mismatch, DimensionMismatch)
        self.reason = str(mismatch)

    @property
    def again_s(self) -> float | None:
        """Seconds to the next look that is worth a wake-up; None is whenever."""
        return None if self.reason is None else AGAIN_S

    def is_due(self) -> bool:
        """Tell whether to read the active model again, and call `compare`."""
        waited = time.monotonic() - self._looked_at >= AGAIN_S
        return waited and (self.reason is not None or self._recalled)

    def compare(self, active: EmbeddingModel | None) -> bool:
        """Judge by the database's *active* model; tell whether this lifts a misfit."""
        self._looked_at = time.monotonic()
        self._recalled = False
        before, self.reason = self.reason, self._judge(active)
        if self.reason is not None and before is None:
            log.warning("%s", self.reason)
        if before is None or self.reason is not None:
            return False
        log.warning("the database's vectors are %s's now", self._embedder.name)
        return True

    def _judge(self, active: EmbeddingModel | None) -> str | None:
        if active is None:
            return "the database has no embedding model: run `hermes-pgvector migrate`"
        ours = self._embedder.name
        if active.name != ours:
            return str(ModelMismatch(database=active.name, configured=ours))
        return self._judge_length(active) if self._wrong_length else None

    def _judge_length(self, active: EmbeddingModel) -> str | None:
        try:
            model = self._embedder.probe(timeout_s=PROBE_TIMEOUT_S)
        except EmbedderUnavailable:
            return self.reason
        if model.dimension != active.dimension:
            return str(
                DimensionMismatch(expected=active.dimension, got=model.dimension)
            )
        self._wrong_length = False
        return None
