"""Facts of the host's `holographic` plugin, from its `memory_store.db`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.models import Target
from hermes_pgmemory.moving import sqlite
from hermes_pgmemory.moving.homes import Found, homes, profile_of
from hermes_pgmemory.moving.values import Aim, Item, entry, moment
from hermes_pgmemory.paths import HomePaths

DATABASE: Final = "memory_store.db"
NAME: Final = "holographic"
_FACT: Final = (
    "fact_id",
    "content",
    "category",
    "tags",
    "trust_score",
    "created_at",
    "updated_at",
)


def read(paths: Sequence[Path], aim: Aim) -> Iterator[Item]:
    """Yield the facts of every database below *paths*, or of the files named there."""
    files = [path for path in paths if path.is_file()]
    folders = [path for path in paths if not path.is_file()]
    found = [
        (file, Found(HomePaths(file.parent), profile_of(file.parent))) for file in files
    ]
    if folders or not files:
        below = ((home.paths.home / DATABASE, home) for home in homes(folders, aim))
        found += [(file, home) for file, home in below if file.is_file()]
    if not found:
        raise BadRequest(f"no {DATABASE} and no profiles/*/{DATABASE}")
    for file, home in found:
        yield from _facts(file, home, aim)


def _facts(file: Path, home: Found, aim: Aim) -> Iterator[Item]:
    theme = home.theme(aim)
    with closing(sqlite.opened(file, ("facts",))) as db:
        for fact in sqlite.rows(db, "facts", _FACT, order="fact_id"):
            about_user = fact["category"] == "user_pref"
            yield entry(
                (theme, None),
                fact["content"],
                at=moment(fact["created_at"]) or datetime.now(UTC),
                updated_at=moment(fact["updated_at"]),
                target=Target.USER if about_user else Target.MEMORY,
                source=NAME,
                note={
                    "import_id": str(fact["fact_id"]),
                    "category": fact["category"],
                    "tags": fact["tags"],
                    "trust": fact["trust_score"],
                },
            )
