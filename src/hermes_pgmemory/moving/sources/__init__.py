"""What can be imported: one reader a file, and the table that all else follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hermes_pgmemory.moving.sources import (
    database,
    files,
    hexus,
    hindsight,
    holographic,
    honcho,
    jsonl,
    mem0,
    sessions,
)
from hermes_pgmemory.moving.values import Reader

__all__ = ["SOURCES", "Source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One memory that rows can be taken from."""

    name: str
    reads: str
    """What its paths are."""
    gives: str
    """What becomes of it."""
    checked: str
    """How the format was checked."""
    read: Reader
    repeats: bool = True
    """Whether it may hold one thing several times."""
    is_database: bool = False
    """Whether it is, or may be, a database that `--from-dsn-env` names."""


SOURCES: Final = (
    Source(
        name="jsonl",
        reads="files of `hermes-pgvector export`",
        gives="the same rows",
        checked="round trips between real databases",
        read=jsonl.read,
        repeats=False,
    ),
    Source(
        name="files",
        reads="homes, with their `profiles/*` (default: this home)",
        gives="the entries of MEMORY.md and USER.md",
        checked="files of the real host, and of `export --format files`",
        read=files.read,
    ),
    Source(
        name="sessions",
        reads="homes, with their `profiles/*` (default: this home)",
        gives="the turns of the host's `state.db`",
        checked="a `state.db` written by the real hermes-agent 0.19.0",
        read=sessions.read,
    ),
    Source(
        name="holographic",
        reads="homes, or `memory_store.db` files (default: this home)",
        gives="its facts as entries",
        checked="a database written by the host's real plugin",
        read=holographic.read,
    ),
    Source(
        name="mem0",
        reads="JSON of its API, or its table by `--from-dsn-env` and `--table`",
        gives="its memories as entries",
        checked="what mem0ai 0.1.10, 0.1.118, 1.0.11 and 2.2.1 wrote into its stores",
        read=mem0.read,
        is_database=True,
    ),
    Source(
        name="hindsight",
        reads="archives of a bank (ZIP), or JSON of its API",
        gives="its facts as entries",
        checked="archives and lists of hindsight-api-slim 1.1.0, lists of 0.6.2",
        read=hindsight.read,
    ),
    Source(
        name="honcho",
        reads="JSON of its API: messages and conclusions",
        gives="messages as turns, conclusions as entries",
        checked="lists of a server of Honcho 3.0.12",
        read=honcho.read,
    ),
    Source(
        name="hexus",
        reads="no path: its database, by `--from-dsn-env`",
        gives="entries, turns and delegations, without vectors",
        checked="databases that the stores of hexus 0.9.0 and 0.9.2 made and wrote",
        read=hexus.read,
        is_database=True,
    ),
    Source(
        name="database",
        reads="no path: another database of ours, by `--from-dsn-env`",
        gives="the same rows, without vectors",
        checked="real databases",
        read=database.read,
        repeats=False,
        is_database=True,
    ),
)
