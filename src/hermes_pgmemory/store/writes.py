"""Apply accepted writes, in order and each exactly once.

A journal may be replayed from any point, any number of times, by several processes
at once: in the transaction of the writes themselves, each theme's place in the
journal is locked, what lies before it is skipped, and it is moved on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import psycopg

from hermes_pgmemory.errors import UnstorableWrite
from hermes_pgmemory.models import (
    Accepted,
    AddEntry,
    AddTurn,
    RecordDelegation,
    RemoveEntry,
    ReplaceEntry,
    SeeAgent,
    Vector,
    Write,
)
from hermes_pgmemory.store import agents, entries, turns
from hermes_pgmemory.store.failures import MIGRATE
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.vectors import read_stamp

Place = tuple[str, str]
"""A theme and an epoch: what a journal position belongs to."""


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Writes by kind, each kind in its order.

    Order matters among entries alone; a turn, a sighting and a delegation say the
    same whenever they arrive.
    """

    entries: list[tuple[entries.EntryWrite, Vector | None]] = field(
        default_factory=list
    )
    turns: list[tuple[AddTurn, Vector | None]] = field(default_factory=list)
    sightings: list[SeeAgent] = field(default_factory=list)
    delegations: list[RecordDelegation] = field(default_factory=list)

    def sort(self, write: Write, vector: Vector | None) -> None:
        match write:
            case AddEntry() | ReplaceEntry() | RemoveEntry():
                self.entries.append((write, vector))
            case AddTurn():
                self.turns.append((write, vector))
            case SeeAgent():
                self.sightings.append(write)
            case RecordDelegation():
                self.delegations.append(write)
            case _:
                assert_never(write)


def apply(
    conn: psycopg.Connection[Any],
    batch: Sequence[Accepted],
    vectors: Mapping[int, Vector],
    *,
    model: str | None = None,
) -> int:
    """Apply what of *batch* was not applied before; return how many writes that was.

    Args:
        conn: In a transaction, which the caller ends.
        batch: In the order of acceptance; positions ascend within an epoch.
        vectors: Index in *batch* to the embedding of that write's content.
        model: Whose vectors these are; None does not know.
    """
    stamp = read_stamp(conn, vectors_of=model if vectors else None)
    known = _lock(conn, batch)
    reached = dict(known)
    kinds = _Kinds()
    fresh = 0
    for index, accepted in enumerate(batch):
        place = _place(accepted)
        if accepted.position > reached[place]:
            reached[place] = accepted.position
            kinds.sort(accepted.write, vectors.get(index))
            fresh += 1
    entries.write(conn, kinds.entries, stamp)
    turns.write(conn, kinds.turns, stamp)
    if stamp.has_agents:
        agents.see(conn, kinds.sightings)
        agents.delegate(conn, kinds.delegations)
    elif kinds.delegations:
        # Alone it becomes a dead letter, which can be tried again; a sighting is
        # made anew every minute.
        raise UnstorableWrite(
            f"the database has no place for delegations: {MIGRATE}, then "
            "`hermes-pgvector replay --dead`"
        )
    _advance(conn, dict(reached.items() - known.items()))
    return fresh


def _place(accepted: Accepted) -> Place:
    return accepted.write.theme, accepted.epoch


def _lock(
    conn: psycopg.Connection[Any], batch: Sequence[Accepted]
) -> Mapping[Place, int]:
    """Lock the places that *batch* moves, and return where they stand."""
    places = list(dict.fromkeys(_place(accepted) for accepted in batch))
    rows = conn.execute(
        QUERIES["lock_positions"],
        {"themes": [theme for theme, _ in places], "epochs": [e for _, e in places]},
    )
    return {(theme, epoch): position for theme, epoch, position in rows}


def _advance(conn: psycopg.Connection[Any], reached: Mapping[Place, int]) -> None:
    rows = [
        {"theme": theme, "epoch": epoch, "position": position}
        for (theme, epoch), position in reached.items()
    ]
    with conn.cursor() as cursor:
        cursor.executemany(QUERIES["advance_position"], rows)
