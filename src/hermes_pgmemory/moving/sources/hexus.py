"""A database of hexus: entries, turns and delegations, without their vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory import capture
from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.models import AddTurn, RecordDelegation, Target
from hermes_pgmemory.moving.sources.documents import mapping, text
from hermes_pgmemory.moving.turns import moved, room_of, turns
from hermes_pgmemory.moving.values import Aim, Item, Owner, entry, provenance
from hermes_pgmemory.store import foreign
from hermes_pgmemory.store.moved import MovedEdge
from hermes_pgmemory.turn_ledger import TurnLedger

NAME: Final = "hexus"

Row = Mapping[str, Any]


def read(paths: Sequence[Path], aim: Aim) -> Iterator[Item]:
    """Yield every row of the database at `aim.dsn`."""
    if paths or not aim.dsn:
        raise BadRequest("name the database of hexus by --from-dsn-env, and no path")
    with foreign.hexus(aim.dsn) as theirs:
        for row in theirs.entries():
            yield _entry(row, aim)
        for session, said in theirs.sessions():
            room = room_of(_owner(session, aim), session["session_id"], aim=aim)
            yield from turns(
                [_message(row) for row in said],
                room=room,
                at=said[0]["ts"],
                source=NAME,
            )
        ledger = TurnLedger()
        for row in theirs.delegations():
            yield from _delegation(row, aim, ledger)


def _owner(row: Row, aim: Aim) -> Owner:
    """Decide by the agent's name, which may be the key of a chat."""
    name = row["agent_identity"]
    return aim.owner(name=name, key=name)


def _entry(row: Row, aim: Aim) -> Item:
    told = mapping(row["metadata"])
    return entry(
        _owner(row, aim),
        row["content"],
        at=row["created_at"],
        updated_at=row["updated_at"],
        target=Target(row["target"]),
        source=NAME,
        note={
            "import_id": str(row["id"]),
            "session_id": text(told.get("session_id")),
            "platform": text(told.get("platform")),
            "origin": text(told.get("source")) or text(told.get("write_origin")),
        },
    )


def _message(row: Row) -> dict[str, Any]:
    at = row["ts"].timestamp()
    return {"role": row["role"], "content": row["content"], "timestamp": at}


def _delegation(row: Row, aim: Aim, ledger: TurnLedger) -> Iterator[Item]:
    """Yield the edge, and the turn that tells of it, as an agent of ours would."""
    owner = _owner(row, aim)
    room = room_of(owner, row["parent_session_id"], aim=aim, ledger=ledger)
    told = capture.delegation(
        row["task"], row["result"], row["child_session_id"], room=room, at=row["ts"]
    )
    note = {"import_id": str(row["id"])}
    for write in told:
        if isinstance(write, RecordDelegation):
            metadata = {**write.metadata, **provenance(NAME, note)}
            yield MovedEdge(write=replace(write, metadata=metadata))
        elif isinstance(write, AddTurn):
            yield moved(write, source=NAME)
