"""Who was seen, and who delegated what to whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from hermes_pgmemory.models import RecordDelegation, SeeAgent
from hermes_pgmemory.store.queries import QUERIES


def see(conn: psycopg.Connection[Any], sightings: Sequence[SeeAgent]) -> None:
    """Update the registry of themes; older sightings change nothing newer."""
    # Sorted: two writers that see the same themes must lock them in one order.
    rows = [
        {"theme": seen.theme, "kind": seen.kind.value, "at": seen.at}
        for seen in sorted(sightings, key=lambda seen: (seen.theme, seen.at))
    ]
    with conn.cursor() as cursor:
        cursor.executemany(QUERIES["see_agent"], rows)


def delegate(
    conn: psycopg.Connection[Any], delegations: Sequence[RecordDelegation]
) -> None:
    """Note each delegation once."""
    rows = [
        {
            "theme": one.theme,
            "subject": one.subject,
            "parent_session_id": one.parent_session_id,
            "child_session_id": one.child_session_id,
            "task": one.task,
            "at": one.at,
            "metadata": Jsonb(dict(one.metadata)),
        }
        for one in delegations
    ]
    with conn.cursor() as cursor:
        cursor.executemany(QUERIES["record_delegation"], rows)
