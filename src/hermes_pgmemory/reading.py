"""The memory for whoever only looks: searched as agents search it, and not written.

No journal, no thread of its own, and a store that has PostgreSQL refuse every change.
"""

from __future__ import annotations

from hermes_pgmemory.breaker import CircuitBreaker
from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import make_embedder
from hermes_pgmemory.errors import PgMemoryError
from hermes_pgmemory.model_watch import ModelWatch
from hermes_pgmemory.recall import Recall
from hermes_pgmemory.store import Store


class Reader:
    """A database that is only read, and the search in it. Thread-safe."""

    def __init__(self, settings: Settings, dsn: str) -> None:
        """Prepare; nothing connects and no thread starts yet.

        Args:
            settings: Which model embeds a question, and how old memories fade.
            dsn: The database, or a standby of it.

        Raises:
            ConfigError: The embedder or *dsn* cannot be used.
        """
        self._embedder = make_embedder(settings)
        self._model_watch = ModelWatch(self._embedder)
        self.store = Store(dsn, model=self._embedder.name, read_only=True)
        self.recall = Recall(
            self.store,
            self._embedder,
            library_breaker=CircuitBreaker(),
            embed_breaker=CircuitBreaker(),
            settled=self._misfit,
            half_life_days=settings.decay_half_life_days,
        )

    def close(self) -> None:
        """Let go of everything."""
        self.store.close()
        self._embedder.close()

    def _misfit(self, seconds: float) -> str | None:
        """Return why the question's vector could not be compared, if so."""
        self._model_watch.recalling()
        if self._model_watch.is_due():
            try:
                facts = self.store.verify(timeout_s=seconds, whole=False)
            except PgMemoryError:
                return None  # the search that follows meets the same, and says so
            self._model_watch.compare(facts.model)
        return self._model_watch.reason
