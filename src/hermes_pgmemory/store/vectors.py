"""Vectors on their way into the database, marked with the model they came from."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from pgvector import HalfVector
from pgvector import Vector as FullVector
from pgvector.psycopg.halfvec import HalfVectorBinaryDumper
from pgvector.psycopg.vector import VectorBinaryDumper
from psycopg.abc import AdaptContext
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

from hermes_pgmemory.errors import BadRequest, ModelMismatch, SchemaError
from hermes_pgmemory.models import Vector
from hermes_pgmemory.store.failures import MIGRATE
from hermes_pgmemory.store.queries import QUERIES


@dataclass(frozen=True, slots=True)
class Stamp:
    """What every row is marked with while one transaction lasts."""

    config: str
    """Text search configuration of the tsv columns."""
    model_id: int | None
    """The active model; without one, rows are stored without vectors."""
    model: str | None
    """Its name."""
    halfvec_oid: int
    """PostgreSQL's number for the type in this database; arrays must name it."""
    has_agents: bool = True
    """Whether there are tables for who was seen and who delegated what."""

    def on(self, vector: Vector | None) -> Mapping[str, Any]:
        """Return the parameters of a row with this *vector*.

        Raises:
            OverflowError: A component is beyond a 16-bit float's 65,504.
        """
        usable = None if self.model_id is None else vector
        return {
            "config": self.config,
            "embedding": half(usable),
            "model_id": None if usable is None else self.model_id,
        }

    def on_all(self, vectors: Sequence[Vector | None]) -> Mapping[str, Any]:
        """Return the parameters of many rows in one statement.

        Raises:
            OverflowError: A component is beyond a 16-bit float's 65,504.
        """
        usable = vectors if self.model_id is not None else [None] * len(vectors)
        return {
            "config": self.config,
            "embeddings": many(self.halfvec_oid, usable),
            "model_id": self.model_id,
        }


@dataclass(frozen=True, slots=True)
class HalfVectors:
    """A `halfvec[]` to send in binary."""

    type_oid: int
    items: tuple[HalfVector | None, ...]


class HalfVectorsDumper(Dumper):
    """Writes PostgreSQL's binary form of a one-dimensional array."""

    format = Format.BINARY

    def dump(self, obj: HalfVectors) -> bytes:
        """Return dimensions, NULL flag, type, length and lower bound; then items."""
        parts = [struct.pack(">iiIii", 1, 1, obj.type_oid, len(obj.items), 1)]
        for item in obj.items:
            body = b"" if item is None else item.to_binary()
            parts += [struct.pack(">i", -1 if item is None else len(body)), body]
        return b"".join(parts)


def read_stamp(
    conn: psycopg.Connection[Any], *, vectors_of: str | None = None
) -> Stamp:
    """Ask what the rows of this transaction are marked with.

    Args:
        conn: In a transaction.
        vectors_of: The model whose vectors are about to be written; it stays the active
            one until the transaction ends. None writes none.

    Raises:
        ModelMismatch: Another model is active, since `reembed` has moved the database.
        SchemaError: The database was never told its text search configuration.
    """
    if vectors_of is not None:
        conn.execute(QUERIES["hold_vectors"])
    row = conn.execute(QUERIES["settings"]).fetchone()
    if row is None or row[0] is None:
        raise SchemaError(f"memory_settings has no text_search_config: {MIGRATE}")
    stamp = Stamp(*row)
    if vectors_of is not None and stamp.model not in {None, vectors_of}:
        raise ModelMismatch(database=stamp.model or "", configured=vectors_of)
    return stamp


def maker(model: str | None, *, comes: bool) -> str | None:
    """Return whose vectors are about to be written, None if none *comes*.

    Raises:
        ValueError: Nobody told whose they are.
    """
    if not comes:
        return None
    if model is None:
        raise ValueError("a store that writes vectors must be told their model")
    return model


def half(vector: Vector | None) -> HalfVector | None:
    """Make *vector* ready to be sent in binary, as 16-bit floats."""
    if vector is None:
        return None
    return HalfVector(vector if isinstance(vector, list) else list(vector))


def like(vector: Vector | None, kind: str) -> HalfVector | FullVector | None:
    """Make *vector* ready to be compared with a column of type *kind*.

    Raises:
        BadRequest: A component is beyond a 16-bit float's 65,504.
    """
    if kind == "vector" and vector is not None:
        return FullVector(list(vector))
    try:
        return half(vector)
    except OverflowError as exc:
        raise BadRequest("the question's vector holds too large a number") from exc


def many(halfvec_oid: int, vectors: Sequence[Vector | None]) -> HalfVectors:
    """Make *vectors* ready to be sent in one array.

    Raises:
        OverflowError: A component is beyond a 16-bit float's 65,504.
    """
    return HalfVectors(halfvec_oid, tuple(half(vector) for vector in vectors))


def adapters() -> AdaptContext:
    """Teach psycopg halfvec without asking each server for the type's number.

    The statements name the type, so a new connection needs no query of its own.
    """
    known = AdaptersMap(psycopg.adapters)
    teach(known)
    return known


def teach(known: AdaptersMap) -> None:
    """Teach one connection, or all that are made with *known*."""
    known.register_dumper(HalfVector, HalfVectorBinaryDumper)
    known.register_dumper(FullVector, VectorBinaryDumper)
    known.register_dumper(HalfVectors, HalfVectorsDumper)
