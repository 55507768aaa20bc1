"""Memories of mem0: what its API returns, or the rows of its table in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory.moving.sources.documents import items, mapping, text
from hermes_pgmemory.moving.values import Aim, Item, Skipped, entry, first_moment
from hermes_pgmemory.store import foreign

NAME: Final = "mem0"
NOBODY: Final = "hermes-user"
"""The user that the host's mem0 plugin names where it knows none."""
EXPIRED: Final = "expired, so that mem0 itself does not show it"


def read(paths: Sequence[Path], aim: Aim) -> Iterator[Item]:
    """Yield the memories of JSON documents, and of the table at `aim.dsn`."""
    told = [said for path in paths for said in items(path)]  # or none, if one is bad
    if aim.dsn:
        for said in foreign.payloads(aim.dsn, aim.table):
            yield memory(said, aim)
    for said in told:
        yield memory(said, aim)


def memory(said: Mapping[str, Any], aim: Aim) -> Item:
    """Return one memory; a row of the table keeps nearly all of it in `payload`.

    The host's plugin notes in `channel` from which platform the user wrote.
    """
    told = {**said, **mapping(said.get("payload"))}
    user = text(told.get("user_id"))
    owner = aim.owner(
        name=text(told.get("agent_id")),
        user="" if user == NOBODY else user,
        platform=text({**told, **mapping(told.get("metadata"))}.get("channel")),
    )
    if _expired(told.get("expiration_date")):
        return Skipped(owner[0], "entries", EXPIRED)
    return entry(
        owner,
        told.get("memory") or told.get("data") or told.get("text"),
        at=first_moment(told, "created_at", "updated_at") or datetime.now(UTC),
        updated_at=first_moment(told, "updated_at"),
        source=NAME,
        note={
            "import_id": text(told.get("id")),
            "import_user": user,
            "run_id": text(told.get("run_id")),
            "categories": ", ".join(map(str, told.get("categories") or ())),
        },
    )


def _expired(value: object) -> bool:
    """Tell whether the day *value*, the last on which a memory holds, is over."""
    try:
        return date.fromisoformat(text(value)[:10]) < datetime.now(UTC).date()
    except ValueError:
        return False
