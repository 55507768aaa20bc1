"""The embedder of a configuration that cannot be used: it says so when asked."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_pgmemory.errors import EmbedderUnavailable, UnembeddableText
from hermes_pgmemory.models import EmbeddingModel, Vector


class UnusableEmbedder:
    """An `Embedder` that refuses every call with one reason."""

    def __init__(self, name: str, reason: str) -> None:
        """Refuse because of *reason*, in the place of model *name*."""
        self._name = name
        self._reason = reason

    @property
    def name(self) -> str:
        """The model's name as configured."""
        return self._name

    @property
    def batch(self) -> int:
        """See `Embedder.batch`."""
        return 1

    def probe(self, *, timeout_s: float) -> EmbeddingModel:  # noqa: ARG002
        """Refuse."""
        raise EmbedderUnavailable(self._reason)

    def embed_query(self, text: str, *, timeout_s: float) -> Vector:  # noqa: ARG002
        """Refuse."""
        raise EmbedderUnavailable(self._reason)

    def embed_documents(
        self,
        texts: Sequence[str],  # noqa: ARG002
        *,
        timeout_s: float,  # noqa: ARG002
    ) -> list[Vector | UnembeddableText]:
        """Refuse."""
        raise EmbedderUnavailable(self._reason)

    def close(self) -> None:
        """Do nothing: nothing is open."""
