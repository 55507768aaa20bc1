"""Conversation turns: what was said, once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import psycopg

from hermes_pgmemory.models import AddTurn, Vector, in_context
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.vectors import Stamp


def write(
    conn: psycopg.Connection[Any],
    turns: Sequence[tuple[AddTurn, Vector | None]],
    stamp: Stamp,
) -> None:
    """Keep *turns*, each with the vector of its content where it wants one."""
    if not turns:
        return
    said = [turn for turn, _ in turns]
    wanted = [vector if turn.embed else None for turn, vector in turns]
    columns = {
        "themes": [turn.theme for turn in said],
        "session_ids": [turn.session_id for turn in said],
        "parent_session_ids": [turn.parent_session_id for turn in said],
        "roles": [turn.role.value for turn in said],
        "contents": [turn.content for turn in said],
        "ats": [turn.at for turn in said],
        "turn_keys": [turn_key(turn) for turn in said],
        "embeds": [turn.embed for turn in said],
        "subjects": [turn.subject for turn in said],
        "broughts": [
            json.dumps(dict(turn.brought_from)) if turn.brought_from else None
            for turn in said
        ],
        "metadatas": [json.dumps(dict(turn.metadata)) for turn in said],
        "text_hashes": [
            text_hash(in_context(turn.content, turn.context)) if turn.embed else None
            for turn in said
        ],
    }
    conn.execute(QUERIES["add_turns"], {**columns, **stamp.on_all(wanted)})


def turn_key(turn: AddTurn) -> bytes:
    """Identify a turn within its session, the same in every process and release."""
    said = [turn.role.value, turn.content, turn.subject, turn.ordinal]
    return hashlib.sha256(json.dumps(said, ensure_ascii=False).encode()).digest()


def text_hash(text: str) -> bytes:
    """Identify what is embedded."""
    return hashlib.sha256(text.encode(errors="replace")).digest()[:16]
