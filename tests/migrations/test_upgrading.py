"""A database as each release left it, brought up to date with its rows."""

from __future__ import annotations

from contextlib import closing
from hashlib import sha256

import psycopg
import pytest
from migrations_kit import CATALOGS, catalog, written

from hermes_pgmemory.errors import SchemaError
from hermes_pgmemory.models import EmbeddingModel, Scope, Subject, Theme
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import Store, migrate
from hermes_pgmemory.store.queries import QUERIES

MODEL = EmbeddingModel(name="test", dimension=3)
VERSIONS = [migration.version for migration in migrate.shipped()]
MEMORIES, AGENTS, FILES, WORDS, _, _, FORGETTING = range(2, 9)
"""After which migration there is what."""

WORK, SALES, DM = Theme("work"), Theme("sales"), Theme("telegram-dm")
ALICE = Subject("a1" * 16)
ENTRIES = [
    (WORK, "Deploys on Fridays", None),
    (WORK, "The café pays late", None),
    (SALES, "東京の客は茶を好む", None),
    (DM, "Prefers green tea", ALICE),
]
TURNS = [
    (WORK, "What does Halden owe?", None),
    (WORK, "Crème brûlée for everybody", None),
    (SALES, "Who pays late?", None),
    (DM, "Call me at night", ALICE),
]
QUESTIONS = [
    ("entries", WORK, None, "fridays", ENTRIES[0]),
    ("entries", WORK, None, "cafe", ENTRIES[1]),
    ("entries", SALES, None, "東京", ENTRIES[2]),
    ("entries", DM, ALICE, "tea", ENTRIES[3]),
    ("turns", WORK, None, "halden", TURNS[0]),
    ("turns", WORK, None, "brulee", TURNS[1]),
    ("turns", SALES, None, "late", TURNS[2]),
    ("turns", DM, ALICE, "night", TURNS[3]),
]
TABLES = {
    "memory_entries": MEMORIES,
    "conversations": MEMORIES,
    "memory_agents": AGENTS,
    "memory_agent_edges": AGENTS,
    "memory_forgotten": FORGETTING,
}


@pytest.fixture(scope="module")
def wanted(new_template):
    """What `schema.sql` makes of an empty database."""
    dsn = new_template()
    written(dsn, dimension=MODEL.dimension)
    return {name: catalog(dsn, name) for name in CATALOGS}


@pytest.fixture(scope="module", params=range(1, len(VERSIONS) + 1), ids=VERSIONS)
def release(request, new_template):
    """The number of a migration, and a database that has it and no later one."""
    dsn = new_template()
    everything = migrate.shipped()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(migrate, "shipped", lambda: everything[: request.param])
        assert migrate.apply(dsn, MODEL) == VERSIONS[: request.param]
    with psycopg.connect(dsn) as conn:
        fill(conn, request.param)
    return request.param, dsn


def fill(conn: psycopg.Connection, number: int) -> None:
    """Put in what a release with so many migrations could hold."""
    if number >= MEMORIES:
        for theme, text, subject in ENTRIES:
            conn.execute(
                "INSERT INTO memory_entries (agent_identity, target, content, subject,"
                " content_hash, tsv, embedding, model_id, source)"
                " VALUES (%s, 'memory', %s, %s, %s, %s, '[1,2,3]', 1, 'f1')",
                (theme, text, subject, digest(text), words(conn, text, number)),
            )
        for theme, text, subject in TURNS:
            conn.execute(
                "INSERT INTO conversations (agent_identity, session_id, role, content,"
                " subject, turn_key, tsv) VALUES (%s, 's1', 'user', %s, %s, %s, %s)",
                (theme, text, subject, digest(text), words(conn, text, number)),
            )
    if number >= FILES:
        conn.execute("UPDATE memory_entries SET files = ARRAY[source]")
    if number >= AGENTS:
        conn.execute("INSERT INTO memory_agents (agent_identity) VALUES ('work')")
        conn.execute(
            "INSERT INTO memory_agent_edges (parent_identity, parent_session_id,"
            " child_session_id, task, task_hash) VALUES ('work', 's1', 's2', 'x', 'x')"
        )
    if number >= FORGETTING:
        conn.execute("INSERT INTO memory_forgotten VALUES ('gone', '')")


def digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def words(conn: psycopg.Connection, text: str, number: int) -> str:
    """Return the words that agents of a release found in *text*."""
    if number < WORDS:
        found = conn.execute("SELECT to_tsvector('english', %s)::text", [text])
    else:
        asked = {"config": "english", "contents": [text]}
        found = conn.execute(QUERIES["lexemes_of"], asked)
    return found.fetchall()[0][0]


def rows(dsn: str, number: int, *, more: str = "") -> dict[str, list[str]]:
    """Return what the tables of a release hold, in the columns that all have."""
    columns = {
        "memory_entries": "id, agent_identity, target, content, content_hash, source,"
        " subject, embedding::text, model_id, created_at, updated_at, retired_at",
        "conversations": "id, agent_identity, session_id, role, content, ts, subject,"
        " turn_key, embed",
    }
    with psycopg.connect(dsn) as conn:
        return {
            table: sorted(
                map(
                    str,
                    conn.execute(
                        f"SELECT {columns.get(table, '*')} {more} FROM {table}"
                    ),
                )
            )
            for table, since in TABLES.items()
            if number >= since
        }


def test_every_release_comes_up_to_date_with_all_its_rows(release, wanted):
    number, dsn = release
    before = rows(dsn, number)
    with closing(Store(dsn)) as store:
        if number < len(VERSIONS):
            with pytest.raises(SchemaError, match="lacks") as refused:
                store.verify(timeout_s=10)
            assert str(refused.value) == (
                f"the database lacks {', '.join(VERSIONS[number:])}: "
                "run `hermes-pgvector migrate`"
            )
        assert migrate.apply(dsn, MODEL) == VERSIONS[number:]
        assert store.verify(timeout_s=10).model == MODEL
        assert rows(dsn, number) == before
        assert sum(map(len, before.values())) >= (8 if number >= MEMORIES else 0)
        if number >= MEMORIES:
            found = [
                (kind, *asked, answers(store, kind, *asked))
                for kind, *asked, _ in QUESTIONS
            ]
            assert found == [(*asked, [text]) for *asked, (_, text, _) in QUESTIONS]
    assert {name: catalog(dsn, name) for name in CATALOGS} == wanted
    with psycopg.connect(dsn) as conn:
        ledger = dict(conn.execute("SELECT version, checksum FROM memory_migrations"))
        files = conn.execute("SELECT DISTINCT files FROM memory_entries").fetchall()
    assert ledger == {one.version: one.checksum for one in migrate.shipped()}
    assert files == ([(["f1"],)] if number >= MEMORIES else [])
    settled = rows(dsn, len(VERSIONS), more=", xmin::text")
    assert migrate.apply(dsn, MODEL) == []
    assert rows(dsn, len(VERSIONS), more=", xmin::text") == settled


def answers(store: Store, kind: str, theme: Theme, subject: Subject | None, text: str):
    scope = Scope(theme=theme, subject=subject)
    asked = Question(text=text, vector=None, scope=scope, limit=5)
    search = store.search_entries if kind == "entries" else store.search_turns
    return [hit.content for hit in search(asked, timeout_s=10)]
