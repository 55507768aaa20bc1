"""Texts to vectors: the only room that speaks HTTP.

Importing this costs nothing: the local model's server starts through this package
and must not pay for an HTTP client that it never uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hermes_pgmemory.errors import UnembeddableText
from hermes_pgmemory.models import EmbeddingModel, Vector

if TYPE_CHECKING:
    from hermes_pgmemory.embed.factory import make_embedder
    from hermes_pgmemory.embed.supervision import (
        LocalServerStatus,
        local_server_status,
        local_servers,
        stop_local_server,
    )

__all__ = [
    "Embedder",
    "LocalServerStatus",
    "local_server_status",
    "local_servers",
    "make_embedder",
    "stop_local_server",
]


class Embedder(Protocol):
    """Turns texts into unit vectors of one model. Safe to share between threads.

    Every vector is L2-normalised here, whatever the endpoint does, so that a dot
    product is a cosine. Prefixes are put before the texts here, too.
    """

    @property
    def name(self) -> str:
        """The model's name as configured."""
        ...

    @property
    def batch(self) -> int:
        """How many texts one request may hold, as far as is known by now."""
        ...

    def probe(self, *, timeout_s: float) -> EmbeddingModel:
        """Learn the model's dimension by asking once; later calls cost nothing.

        Args:
            timeout_s: Seconds for the whole call.

        Raises:
            EmbedderUnavailable: Nobody answers usefully; the message names the
                setting to change where one is at fault.
        """
        ...

    def embed_query(self, text: str, *, timeout_s: float) -> Vector:
        """Embed what someone asks, in one attempt.

        Args:
            text: Any text that is not blank. The middle of a very long one is
                left out.
            timeout_s: Seconds for the whole call, name look-up and start of the
                local model included.

        Raises:
            EmbedderUnavailable: No answer, or none in time.
            UnembeddableText: The text is blank, or the endpoint refuses it.
            DimensionMismatch: The model's dimension changed.
        """
        ...

    def embed_documents(
        self, texts: Sequence[str], *, timeout_s: float
    ) -> list[Vector | UnembeddableText]:
        """Embed what is to be stored: one request where the endpoint allows it.

        A text that the endpoint refuses for its length is cut in half until it is
        accepted. A text that it refuses otherwise, while it accepts others, has the
        reason in its place.

        Args:
            texts: Any number; blank ones come back refused without being sent.
            timeout_s: Seconds for each request; a batch that has to be split takes
                several.

        Returns:
            As many items as texts, in their order.

        Raises:
            EmbedderUnavailable: Nothing is wrong with the texts; try again after
                `retry_after_s`, or when the named setting has been changed.
            DimensionMismatch: The model's dimension changed; no vector is returned.
        """
        ...

    def close(self) -> None:
        """Close the connections. The local model's server lives on for others."""
        ...


def __getattr__(name: str) -> Any:
    """Import what needs the HTTP client only when somebody asks for it."""
    if name == "make_embedder":
        from hermes_pgmemory.embed import factory  # noqa: PLC0415

        return factory.make_embedder
    if name in __all__:
        from hermes_pgmemory.embed import supervision  # noqa: PLC0415

        return getattr(supervision, name)
    raise AttributeError(name)
