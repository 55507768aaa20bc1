from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hermes_pgmemory.models import AgentKind, RecordDelegation, SeeAgent, Theme
from hermes_pgmemory.store import Table


@pytest.fixture
def runtime(dsn, new_role):
    """A DSN of a role that may change rows and nothing else."""
    role = new_role()
    grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}"
    with psycopg.connect(dsn) as conn:
        conn.execute(sql.SQL(grant).format(sql.Identifier(role)))
    return make_conninfo(dsn, user=role)


def test_a_role_with_dml_alone_is_enough(runtime, memory, store_on):
    memory.store = store_on(runtime, model="test")
    assert memory.store.verify(timeout_s=10).model.name == "test"
    at = memory.tick()
    work = Theme("work")
    memory.apply(
        memory.add("tea"),
        memory.replace("tea", "coffee"),
        memory.add("cake"),
        memory.remove("cake"),
        memory.turn("hello"),
        SeeAgent(theme=work, kind=AgentKind.THEME, at=at),
        RecordDelegation(
            theme=work, parent_session_id="1", child_session_id="2", task="x", at=at
        ),
        vectors={1: [1, 0, 0]},
    )
    rows = memory.store.unembedded(Table.TURNS, limit=5, timeout_s=10)
    vectors = [(row, [0, 1, 0]) for row in rows]
    assert memory.store.set_vectors(Table.TURNS, vectors, timeout_s=10) == 1
    assert [hit.content for hit in memory.entries("", vector=[1, 0, 0])] == ["coffee"]
    assert [hit.content for hit in memory.turns("hello")] == ["hello"]
    assert [c.entries for c in memory.store.counts(timeout_s=10)] == [1]
