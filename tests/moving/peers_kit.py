"""What real packages of other memories wrote, and what readers make of it.

`scripts/fixtures` made the files; each folder's `made.json` says with what.
"""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
from psycopg import sql

from hermes_pgmemory.models import Subject
from hermes_pgmemory.moving.values import Aim, Reader, Skipped
from hermes_pgmemory.store.moved import MovedEdge, MovedEntry, MovedTurn

FIXTURES = Path(__file__).parent / "fixtures"
MADE = {
    folder.name: json.loads((folder / "made.json").read_text())
    for folder in FIXTURES.iterdir()
}
MEM0 = sorted(name for name in MADE if name.startswith("mem0ai-"))
HEXUS = sorted(name for name in MADE if name.startswith("hexus-"))
HINDSIGHT = FIXTURES / "hindsight-api-slim-1.1.0"
OLD_HINDSIGHT = FIXTURES / "hindsight-api-slim-0.6.2"
HONCHO = FIXTURES / "honcho-3.0.12"
KEY = "ab" * 32
BOB = "5550100124"
"""Who wrote by Telegram to each of them."""


class Told:
    """What a reader made of files or of a database."""

    def __init__(self, read: Reader, aim: Aim, *paths: Path) -> None:
        found = list(read(paths, aim))
        self.left_out = [one.why for one in found if isinstance(one, Skipped)]
        self.entries = [one for one in found if isinstance(one, MovedEntry)]
        self.turns = [one.write for one in found if isinstance(one, MovedTurn)]
        self.edges = [one.write for one in found if isinstance(one, MovedEdge)]

    @property
    def texts(self) -> set[tuple[str, str]]:
        """Of public entries, with their themes."""
        written = (one.write for one in self.entries)
        return {(one.theme, one.content) for one in written if not one.subject}

    def entry(self, content: str) -> MovedEntry:
        [found] = [one for one in self.entries if one.write.content == content]
        return found

    def whose(self, content: str) -> tuple[str, Subject | None]:
        write = self.entry(content).write
        return write.theme, write.subject


def make_tables(dsn: str, schema: str, folder: str, file: str) -> None:
    """Make the tables of a fixture anew, in a schema of their own."""
    with psycopg.connect(dsn) as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS vector")
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        for table in json.loads((FIXTURES / folder / file).read_text()):
            place = sql.Identifier(schema, table["table"])
            named = [(sql.Identifier(name), kind) for name, kind, _ in table["columns"]]
            columns = [sql.SQL("{} " + kind).format(name) for name, kind in named]
            values = [sql.SQL("%s::" + kind) for _, kind in named]
            conn.execute(
                sql.SQL("CREATE TABLE {} ({})").format(
                    place, sql.SQL(", ").join(columns)
                )
            )
            conn.cursor().executemany(
                sql.SQL("INSERT INTO {} VALUES ({})").format(
                    place, sql.SQL(", ").join(values)
                ),
                table["rows"],
            )
