"""What an agent must know about its database before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store.queries import QUERIES


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """The database's own settings; they outrank the configuration."""

    model: EmbeddingModel | None
    """The active model: only its vectors are compared."""
    text_search_config: str
    """The configuration that all its words went through."""
    subject_key: str = field(repr=False)
    """32 bytes in hex: keys the hash of contacts. Secret."""
    server_version: int
    """PostgreSQL's `server_version_num`, like 180006."""
    extension_version: str
    """pgvector's, like 0.8.6."""
    lacks: Sequence[str] = ()
    """Migrations that are missing and that an agent can do without."""


def read_facts(
    conn: psycopg.Connection[Any], *, lacks: Sequence[str] = ()
) -> DatabaseFacts:
    """Read them from a database that is migrated but for what it *lacks*."""
    name, dimension, query, document, words, key, server, extension = conn.execute(
        QUERIES["facts"]
    ).fetchall()[0]
    model = name and EmbeddingModel(
        name=name, dimension=dimension, query_prefix=query, document_prefix=document
    )
    return DatabaseFacts(
        model=model or None,
        text_search_config=words or "simple",
        subject_key=key or "",
        server_version=server,
        extension_version=extension or "",
        lacks=lacks,
    )
