"""What a database of hexus holds becomes entries, turns and delegations."""

from __future__ import annotations

import json
from datetime import timedelta

import psycopg
import pytest
from moving_kit import START, doing
from psycopg.types.json import Jsonb

from hermes_pgmemory.models import AddTurn, Role, Theme
from hermes_pgmemory.moving.turns import NOISE

SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2
DM = "agent:main:whatsapp:dm:15550100123"
COLUMNS = {
    "memory_entries": """agent_identity text NOT NULL, target text NOT NULL,
        content text NOT NULL, embedding vector(384), created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL, metadata jsonb NOT NULL, compressed text,
        content_hash bytea, UNIQUE (agent_identity, target, content)""",
    "conversations": """session_id text NOT NULL, agent_identity text NOT NULL,
        role text NOT NULL, content text NOT NULL, ts timestamptz NOT NULL,
        embedding vector(384), metadata jsonb NOT NULL""",
    "delegations": """parent_session_id text NOT NULL, child_session_id text NOT NULL,
        agent_identity text NOT NULL, task text NOT NULL, result text NOT NULL,
        ts timestamptz NOT NULL, embedding vector(384), metadata jsonb NOT NULL""",
}
ENTRIES = [
    ("default", "memory", "Deploys on Fridays.", {"session_id": "s1"}),
    ("default", "user", "Prefers tea.", {"source": "bulk_import", "file": "/x"}),
    ("Sales", "memory", f"Key {SECRET}", {"entities": [{"type": "url"}]}),
    ("sales", "memory", f"Key {SECRET}", {}),
    ("sales", "memory", " \n", {}),
    (DM, "user", "calls at night", {"session_id": DM, "platform": "whatsapp"}),
]
TURNS = [
    ("s1", "default", "user", "What does Halden owe?"),
    ("s2", "Sales", "user", "Who pays late these days?"),
    ("s1", "default", "assistant", "Halden owes 300 since May."),
    ("s1", "default", "user", "What does Halden owe?"),
    ("s1", "default", "user", "ok"),
    ("s1", "default", "system", "[SESSION ENDED] Session s1 has ended."),
    (DM, DM, "user", "I like tea, and I said so"),
]
DELEGATIONS = [
    ("s1", "s9", "default", "Look up Halden", "300 since May"),
    (DM, "s8", DM, "Find a tea shop", ""),
]
WORDS = ("hexus", "--from-dsn-env", "THEIRS")


@pytest.fixture
def theirs(new_database, monkeypatch):
    """A database with the tables that hexus 0.9.2 has, filled as it fills them."""
    dsn = new_database()
    monkeypatch.setenv("THEIRS", dsn)
    note = Jsonb({})
    with psycopg.connect(dsn) as conn:
        conn.execute("CREATE EXTENSION vector")
        for table, columns in COLUMNS.items():
            conn.execute(f"CREATE TABLE {table} (id bigserial PRIMARY KEY, {columns})")
        cursor = conn.cursor()
        cursor.executemany(
            "INSERT INTO memory_entries (agent_identity, target, content, metadata,"
            " created_at, updated_at, compressed) VALUES (%s, %s, %s, %s, %s, %s, 'c')",
            [
                (*told, Jsonb(meta), START, START + timedelta(days=n))
                for n, (*told, meta) in enumerate(ENTRIES)
            ],
        )
        cursor.executemany(
            "INSERT INTO conversations (session_id, agent_identity, role, content, ts,"
            " metadata) VALUES (%s, %s, %s, %s, %s, %s)",
            [
                (*turn, START + timedelta(minutes=n), note)
                for n, turn in enumerate(TURNS)
            ],
        )
        cursor.executemany(
            "INSERT INTO delegations (parent_session_id, child_session_id,"
            " agent_identity, task, result, ts, metadata)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [(*one, START + timedelta(hours=1), note) for one in DELEGATIONS],
        )
    return dsn


@pytest.mark.usefixtures("theirs")
def test_everything_arrives_as_an_agent_would_have_kept_it(new, run):
    database = new()
    # What an agent of ours was told of the same session is there already.
    database.apply(
        AddTurn(
            theme=Theme("hermes"),
            session_id="s1",
            role=Role.USER,
            content="What does Halden owe?",
            ordinal=1,
            at=START,
        )
    )
    told = doing(run, database, *WORDS)
    assert (told["new"], told["there"]) == (4 + 4 + 2 + 2, 2)
    assert told["reasons"] == {"nothing in it": 1, NOISE: 1}
    assert [row for row in database.entries() if row[0] != "whatsapp-dm"] == [
        ("hermes", "memory", "Deploys on Fridays."),
        ("hermes", "user", "Prefers tea."),
        ("sales", "memory", "Key [redacted openai key]"),
    ]
    assert [turn for turn in database.turns() if turn[0] == "hermes"] == [
        ("hermes", "user", "What does Halden owe?"),
        ("hermes", "assistant", "Halden owes 300 since May."),
        ("hermes", "user", "What does Halden owe?"),
        ("hermes", "assistant", "[delegation] Look up Halden\n[result] 300 since May"),
    ]
    edges = database.query(
        "SELECT parent_identity, child_session_id, task FROM memory_agent_edges"
        " WHERE subject IS NULL"
    )
    assert edges == [("hermes", "s9", "Look up Halden")]
    at, changed, note = database.query(
        "SELECT created_at, updated_at, metadata FROM memory_entries"
        " WHERE content LIKE 'Prefers%'"
    )[0]
    assert (at, changed) == (START, START + timedelta(days=1))
    assert note == {
        "write_origin": "import",
        "import_source": "hexus",
        "import_id": "2",
        "origin": "bulk_import",
    }


@pytest.mark.usefixtures("theirs")
def test_what_a_contact_said_is_that_contacts_and_names_nobody(new, run):
    database = new()
    doing(run, database, *WORDS)
    kept = [
        database.query(f"SELECT {name}, subject FROM {table} WHERE subject IS NOT NULL")
        for table, name in (
            ("memory_entries", "agent_identity"),
            ("conversations", "agent_identity"),
            ("memory_agent_edges", "parent_identity"),
        )
    ]
    assert [len(rows) for rows in kept] == [1, 2, 1]
    assert len({row for rows in kept for row in rows}) == 1
    assert "15550100123" not in json.dumps(database.rows(), default=str)


def test_what_is_no_database_of_hexus_is_named(new, run, theirs):
    database = new()
    with psycopg.connect(theirs) as conn:
        conn.execute("DROP TABLE delegations")
    ran = run(database, "import", *WORDS)
    assert (ran.status, "not one of hexus" in ran.err) == (2, True)
    assert run(database, "import", "hexus").status == 2
    assert run(database, "import", *WORDS, "a-path").status == 2
