"""How rows from elsewhere are kept: as an agent's writes are, and then settled."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, assert_never

import psycopg

from hermes_pgmemory.models import AddTurn, Vector
from hermes_pgmemory.store import agents, entries, runlog, turns, writes
from hermes_pgmemory.store.moved import (
    Moved,
    MovedAgent,
    MovedEdge,
    MovedEntry,
    MovedTurn,
)
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.turns import turn_key
from hermes_pgmemory.store.vectors import maker, read_stamp

Columns = dict[str, Any]


@dataclass(slots=True)
class _Kinds:
    """Rows by kind, and the place of each."""

    entries: dict[int, MovedEntry] = field(default_factory=dict[int, MovedEntry])
    turns: dict[int, MovedTurn] = field(default_factory=dict[int, MovedTurn])
    edges: dict[int, MovedEdge] = field(default_factory=dict[int, MovedEdge])
    agents: dict[int, MovedAgent] = field(default_factory=dict[int, MovedAgent])

    @classmethod
    def of(cls, rows: Mapping[int, Moved]) -> _Kinds:
        kinds = cls()
        for place, row in rows.items():
            match row:
                case MovedEntry():
                    kinds.entries[place] = row
                case MovedTurn():
                    kinds.turns[place] = row
                case MovedEdge():
                    kinds.edges[place] = row
                case MovedAgent():
                    kinds.agents[place] = row
                case _:
                    assert_never(row)
        return kinds

    @property
    def tables(self) -> dict[str, int]:
        """How many rows each table gets."""
        return {
            "memory_entries": len(self.entries),
            "conversations": len(self.turns),
            "memory_agent_edges": len(self.edges),
            "memory_agents": len(self.agents),
        }


def there(conn: psycopg.Connection[Any], rows: Sequence[Moved]) -> set[int]:
    """Return the places in *rows* of what is there already, or told before."""
    kinds = _Kinds.of(dict(enumerate(rows)))
    found = _repeated(rows)
    asked: list[tuple[str, list[int], Columns]] = [
        ("there_entries", [*kinds.entries], _entry_keys([*kinds.entries.values()])),
        ("there_turns", [*kinds.turns], _turn_keys([*kinds.turns.values()])),
        ("there_edges", [*kinds.edges], _edge_keys([*kinds.edges.values()])),
        ("there_agents", [*kinds.agents], _agent_keys([*kinds.agents.values()])),
    ]
    for query, places, columns in asked:
        if places:
            known = conn.execute(QUERIES[query], columns)
            found |= {places[place - 1] for (place,) in known}
    return found


def keep(
    conn: psycopg.Connection[Any],
    rows: Sequence[Moved],
    *,
    runs: Mapping[str, int],
    model: str | None,
) -> set[int]:
    """Keep what of *rows* is new; return the places of the others.

    Args:
        conn: In a transaction, which the caller ends.
        rows: In the order in which they are to get their ids.
        runs: By table, the line of the log that the new rows are added to.
        model: Whose vectors the rows bring.

    Raises:
        ValueError: They bring vectors, and nobody told whose.
    """
    brings = any(isinstance(r, MovedEntry | MovedTurn) and r.vector for r in rows)
    stamp = read_stamp(conn, vectors_of=maker(model, comes=brings))
    # As whoever writes: what is looked up must still be so when it is written.
    conn.execute(QUERIES["join_writers"])
    names = sorted({row.write.theme for row in rows if isinstance(row, MovedEntry)})
    for name in names:
        conn.execute(QUERIES["lock_theme"], {"theme": name})
    known = there(conn, rows) | writes.forgotten(conn, [row.write for row in rows])
    fresh = {place: row for place, row in enumerate(rows) if place not in known}
    new = _Kinds.of(fresh)
    if new.entries:
        told = [(row.write, row.vector) for row in new.entries.values()]
        entries.write(conn, told, stamp)
    turns.write(conn, [_said(row) for row in new.turns.values()], stamp)
    if new.agents:
        last = [row.write for row in new.agents.values()]
        first = [replace(row.write, at=row.first_seen) for row in new.agents.values()]
        agents.see(conn, [*first, *last])
    if new.edges:
        agents.delegate(conn, [row.write for row in new.edges.values()])
    _settle(conn, new)
    _log(conn, new.tables, runs)
    return known


def _settle(conn: psycopg.Connection[Any], new: _Kinds) -> None:
    changed = [row for row in new.entries.values() if _is_aged(row)]
    if changed:
        conn.execute(QUERIES["settle_entries"], _entry_facts(changed))
    told = [row for row in new.turns.values() if row.key or row.text_hash]
    if told:
        conn.execute(QUERIES["settle_turns"], _turn_facts(told))
    sent = [row for row in new.edges.values() if row.child or row.kind != "delegated"]
    if sent:
        children = {"child_identities": [row.child for row in sent]}
        conn.execute(QUERIES["settle_edges"], _edge_keys(sent) | children)
    noted = [row for row in new.agents.values() if row.attrs]
    if noted:
        attrs = {"attrs": [json.dumps(dict(row.attrs)) for row in noted]}
        themes = [row.write.theme for row in noted]
        conn.execute(QUERIES["settle_agents"], {"themes": themes, **attrs})


def _log(
    conn: psycopg.Connection[Any], counts: Mapping[str, int], runs: Mapping[str, int]
) -> None:
    for table, run in runs.items():
        runlog.add_to_run(conn, run, affected=counts[table])


def _repeated(rows: Sequence[Moved]) -> set[int]:
    """Return the places of what an earlier row says already."""
    seen: set[Hashable] = set()
    repeated: set[int] = set()
    for place, row in enumerate(rows):
        said = identity_of(row)
        if said in seen:
            repeated.add(place)
        seen.add(said)
    return repeated


def identity_of(row: Moved) -> Hashable:
    """Return what tells *row* from every other, short and the same in one process."""
    match row:
        case MovedEntry(write=add):
            return hash((add.theme, add.target, add.content, add.subject))
        case MovedTurn(write=turn):
            return hash((turn.theme, turn.session_id, _key(row)))
        case MovedEdge(write=edge):
            ids = (edge.theme, edge.parent_session_id, edge.child_session_id)
            return hash((ids, row.kind, edge.at, edge.task))
        case MovedAgent(write=seen):
            return hash((seen.theme, row.first_seen, seen.at))
        case _:
            assert_never(row)


def _is_aged(row: MovedEntry) -> bool:
    own = [row.write.source] if row.write.source else []
    aged = row.updated_at != row.write.at or row.retired_at is not None
    return aged or list(row.files) != own or bool(row.missing_from)


def _entry_keys(rows: Sequence[MovedEntry]) -> Columns:
    return {
        "themes": [row.write.theme for row in rows],
        "targets": [row.write.target.value for row in rows],
        "hashes": [_digest(row.write.content) for row in rows],
        "subjects": [row.write.subject for row in rows],
    }


def _entry_facts(rows: Sequence[MovedEntry]) -> Columns:
    return {
        **_entry_keys(rows),
        "updated": [row.updated_at for row in rows],
        "retired": [row.retired_at for row in rows],
        "files": [json.dumps(list(row.files)) for row in rows],
        "missing": [json.dumps(list(row.missing_from)) for row in rows],
    }


def _turn_keys(rows: Sequence[MovedTurn]) -> Columns:
    return {
        "themes": [row.write.theme for row in rows],
        "session_ids": [row.write.session_id for row in rows],
        "turn_keys": [_key(row) for row in rows],
    }


def _turn_facts(rows: Sequence[MovedTurn]) -> Columns:
    return {
        **_turn_keys(rows),
        "written": [turn_key(_said(row)[0]) for row in rows],
        "text_hashes": [row.text_hash for row in rows],
    }


def _key(row: MovedTurn) -> bytes:
    return row.key or turn_key(row.write)


def _said(row: MovedTurn) -> tuple[AddTurn, Vector | None]:
    """Return what is written of *row*; one with a key of its own gets it afterwards.

    Until then it must not be taken for a turn that says the same.
    """
    if row.key is None:
        return row.write, row.vector
    return replace(row.write, ordinal=2**32 + int.from_bytes(row.key[:4])), row.vector


def _edge_keys(rows: Sequence[MovedEdge]) -> Columns:
    return {
        "themes": [row.write.theme for row in rows],
        "parents": [row.write.parent_session_id for row in rows],
        "children": [row.write.child_session_id for row in rows],
        "kinds": [row.kind for row in rows],
        "ats": [row.write.at for row in rows],
        "tasks": [row.write.task for row in rows],
    }


def _agent_keys(rows: Sequence[MovedAgent]) -> Columns:
    return {
        "themes": [row.write.theme for row in rows],
        "firsts": [row.first_seen for row in rows],
        "lasts": [row.write.at for row in rows],
    }


def _digest(content: str) -> bytes:
    return sha256(content.encode(errors="replace")).digest()
