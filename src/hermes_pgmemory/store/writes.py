"""Apply accepted writes, in order and each exactly once.

A journal may be replayed from any point, any number of times, by several processes
at once: in the transaction of the writes themselves, each theme's place in the
journal is locked, what lies before it is skipped, and it is moved on. Skipped, too, is
what was said before its contact, or its theme, was forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
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
from hermes_pgmemory.store.vectors import maker, read_stamp

Place = tuple[str, str]
"""A theme and an epoch: what a journal position belongs to."""
Owner = tuple[str, str]
"""A theme, and a contact in it; "" is all of the theme."""


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
        model: Whose vectors these are.

    Raises:
        ValueError: There are vectors, and nobody told whose.
    """
    stamp = read_stamp(conn, vectors_of=maker(model, comes=bool(vectors)))
    known, forgotten = _lock(conn, batch)
    reached = dict(known)
    kinds = _Kinds()
    fresh = 0
    for index, accepted in enumerate(batch):
        place = _place(accepted)
        if accepted.position > reached[place]:
            reached[place] = accepted.position
            if _is_forgotten(accepted.write, forgotten):
                continue
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


def forgotten(conn: psycopg.Connection[Any], writes: Sequence[Write]) -> set[int]:
    """Return the places in *writes* of what was said before it was forgotten."""
    owners = {owner for write in writes for owner in _owners(write)}
    asked = {"themes": [t for t, _ in owners], "subjects": [s for _, s in owners]}
    rows = conn.execute(QUERIES["forgotten"], asked)
    since = {(theme, subject): at for theme, subject, at in rows}
    return {n for n, write in enumerate(writes) if _is_forgotten(write, since)}


def _owners(write: Write) -> tuple[Owner, Owner]:
    """Return the theme of *write*, and its contact there."""
    subject: str | None = getattr(write, "subject", None)
    return (write.theme, ""), (write.theme, subject or "")


def _is_forgotten(write: Write, forgotten: Mapping[Owner, datetime]) -> bool:
    return bool(forgotten) and any(
        owner in forgotten and write.at <= forgotten[owner] for owner in _owners(write)
    )


def _lock(
    conn: psycopg.Connection[Any], batch: Sequence[Accepted]
) -> tuple[Mapping[Place, int], Mapping[Owner, datetime]]:
    """Lock the places that *batch* moves.

    Returns:
        Where they stand, and until when which of the owners were forgotten; that is
        asked behind the lock, which `forget` waits for.
    """
    places = list(dict.fromkeys(_place(accepted) for accepted in batch))
    owners = {owner for accepted in batch for owner in _owners(accepted.write)}
    rows = conn.execute(
        QUERIES["lock_positions"],
        {"themes": [theme for theme, _ in places], "epochs": [e for _, e in places]},
    )
    forgotten = conn.execute(
        QUERIES["forgotten"],
        {"themes": [theme for theme, _ in owners], "subjects": [s for _, s in owners]},
    )
    known = {(theme, epoch): position for theme, epoch, position in rows}
    return known, {(theme, subject): at for theme, subject, at in forgotten}


def _advance(conn: psycopg.Connection[Any], reached: Mapping[Place, int]) -> None:
    rows = [
        {"theme": theme, "epoch": epoch, "position": position}
        for (theme, epoch), position in reached.items()
    ]
    with conn.cursor() as cursor:
        cursor.executemany(QUERIES["advance_position"], rows)
