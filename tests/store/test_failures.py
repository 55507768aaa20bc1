"""Every failure in one line that an operator can act on, and nothing secret in it."""

from __future__ import annotations

import logging
import os
import socket

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_pgmemory.errors import DatabaseUnavailable, SchemaError, UnstorableWrite
from hermes_pgmemory.models import AgentKind, RecordDelegation, SeeAgent, Theme
from hermes_pgmemory.store import requirements

PASSWORD = "s3 @/'\\%cret"


def failure(store, error=DatabaseUnavailable, **more):
    with pytest.raises(error) as failed:
        store.counts(**({"timeout_s": 5} | more))
    assert "\n" not in str(failed.value)
    return str(failed.value)


def failure_of_verify(store):
    with pytest.raises(SchemaError) as failed:
        store.verify(timeout_s=5)
    return str(failed.value)


class TestReachingTheDatabase:
    def test_a_closed_port(self, store_on):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        told = failure(store_on(f"host=127.0.0.1 port={port} dbname=m user=u"))
        assert told == (
            f"no database: connection refused at host 127.0.0.1 port {port}"
            " (see plugins.pgvector.dsn)"
        )

    def test_two_closed_ports(self, store_on):
        told = failure(store_on("postgresql://u@127.0.0.1:1,127.0.0.1:2/m"))
        assert told.startswith(
            "no database: connection refused at host 127.0.0.1 port 2"
        )

    def test_a_missing_socket(self, store_on, tmp_path):
        told = failure(store_on(f"host={tmp_path} dbname=m user=u"))
        assert told.startswith(
            f"no database: no such file or directory at socket {tmp_path}"
        )

    def test_an_unknown_host(self, store_on):
        told = failure(store_on("host=nowhere.invalid dbname=m user=u"))
        assert told != "the database did not answer within 5 s"

    def test_a_missing_database(self, store_on, server):
        told = failure(store_on(make_conninfo(server, dbname="nowhere")))
        assert told.startswith('no database: database "nowhere" does not exist at ')

    def test_a_missing_role(self, store_on, server):
        told = failure(store_on(make_conninfo(server, user="nobody_at_all")))
        assert told.startswith('no database: role "nobody_at_all" does not exist at ')

    @pytest.mark.skipif("PG_TEST_DSN" in os.environ, reason="needs its own pg_hba.conf")
    def test_a_wrong_password(self, store_on, server, caplog):
        caplog.set_level(logging.DEBUG)
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute("DROP ROLE IF EXISTS pgmemory_locked_out")
            admin.execute("CREATE ROLE pgmemory_locked_out LOGIN PASSWORD 'right'")
        given = {"user": "pgmemory_locked_out", "password": PASSWORD}
        told = failure(store_on(make_conninfo(server, **given)))
        assert told.startswith(
            "no database: password authentication failed for user"
            ' "pgmemory_locked_out" at '
        )
        for word in (PASSWORD, "cret"):
            assert word not in caplog.text
            assert word not in told

    def test_a_server_that_accepts_and_says_nothing(self, store_on):
        with socket.create_server(("127.0.0.1", 0)) as mute:
            port = mute.getsockname()[1]
            target = f"host=127.0.0.1 port={port} dbname=m user=u connect_timeout=2"
            store = store_on(target)
            told = failure(store, timeout_s=0.2)
            assert told == "the database did not answer within 0.2 s"
            store.close()


class TestSchema:
    def test_a_database_never_migrated(self, store_on, new_database):
        store = store_on(new_database())
        for told in (
            failure(store, SchemaError),
            failure_of_verify(store),
        ):
            assert "run `hermes-pgvector migrate`" in told

    def test_a_table_lost(self, store, dsn):
        with psycopg.connect(dsn) as conn:
            conn.execute("DROP TABLE conversations CASCADE")
        told = failure(store, SchemaError)
        assert told == (
            'relation "conversations" does not exist (UndefinedTable):'
            " run `hermes-pgvector migrate`"
        )

    def test_a_column_of_another_type(self, memory, dsn):
        with psycopg.connect(dsn) as conn:
            conn.execute(
                "ALTER TABLE conversations ALTER embedding TYPE int USING NULL"
            )
        with pytest.raises(SchemaError, match="run `hermes-pgvector migrate`"):
            memory.apply(memory.turn("x"), vectors={0: [1, 0, 0]})

    def test_a_text_search_config_lost(self, memory):
        memory.query("DELETE FROM memory_settings WHERE key = 'text_search_config'")
        with pytest.raises(SchemaError, match="run `hermes-pgvector migrate`"):
            memory.apply(memory.turn("x"))

    def test_a_role_without_privileges(self, store_on, dsn, new_role):
        store = store_on(make_conninfo(dsn, user=new_role()))
        told = failure(store, SchemaError)
        assert told.startswith("permission denied for table memory_")
        assert "grant it to this role" in told


class TestVerify:
    def test_tells_the_facts(self, memory):
        facts = memory.store.verify(timeout_s=5)
        assert (facts.model.name, facts.model.dimension) == ("test", 3)
        setting = "SELECT value FROM memory_settings WHERE key = 'text_search_config'"
        assert [facts.text_search_config] == memory.query(setting)
        assert len(bytes.fromhex(facts.subject_key)) == 32
        assert facts.server_version >= requirements.OLDEST_SERVER
        assert facts.extension_version.startswith("0.")
        assert facts.subject_key not in repr(facts)

    def test_knows_no_model_where_none_is_active(self, memory):
        memory.query("DELETE FROM memory_settings WHERE key = 'active_model_id'")
        assert memory.store.verify(timeout_s=5).model is None

    def test_refuses_a_newer_database(self, memory):
        memory.query("INSERT INTO memory_migrations VALUES ('9999_future', 'x')")
        told = failure_of_verify(memory.store)
        assert "9999_future" in told
        assert "upgrade hermes-pgmemory" in told

    def test_an_agent_does_without_the_registry_of_agents(self, memory):
        without_agents(memory)
        facts = memory.store.verify(timeout_s=5, whole=False)
        assert facts.lacks == ["0003_agents"]

    def test_but_not_without_its_memories(self, memory):
        memory.query("DELETE FROM memory_migrations WHERE version LIKE '0002%'")
        with pytest.raises(SchemaError, match="lacks 0002_memories"):
            memory.store.verify(timeout_s=5, whole=False)

    def test_refuses_a_database_left_behind(self, memory):
        memory.query("DELETE FROM memory_migrations WHERE version LIKE '0003%'")
        told = failure_of_verify(memory.store)
        assert told == ("the database lacks 0003_agents: run `hermes-pgvector migrate`")


def without_agents(memory):
    memory.query(
        "DELETE FROM memory_migrations WHERE version LIKE '0003%';"
        "DROP VIEW v_agent_memory;"
        "DROP TABLE memory_agents, memory_agent_edges, memory_maintenance_log"
    )


class TestWithoutAgents:
    """A database that lacks the registry keeps everything else working."""

    @pytest.fixture(autouse=True)
    def registry_away(self, memory):
        without_agents(memory)

    def test_memories_and_turns_are_stored_found_and_counted(self, memory, contents_of):
        seen = SeeAgent(theme=Theme("work"), kind=AgentKind.THEME, at=memory.tick())
        memory.apply(memory.add("tea"), memory.turn("tea?"), seen)
        assert contents_of(memory.entries("tea")) == ["tea"]
        assert contents_of(memory.turns("tea")) == ["tea?"]
        (counted,) = memory.store.counts(timeout_s=5)
        assert (counted.entries, counted.turns, counted.last_seen) == (1, 1, None)

    def test_a_delegation_is_refused_by_itself_and_says_what_to_run(self, memory):
        delegation = RecordDelegation(
            theme=Theme("work"),
            parent_session_id="p",
            child_session_id="c",
            task="look",
            at=memory.tick(),
        )
        with pytest.raises(UnstorableWrite, match=r"migrate.*replay --dead"):
            memory.apply(delegation)


class TestWriting:
    def test_a_constraint(self, memory):
        with pytest.raises(UnstorableWrite, match="check constraint") as refused:
            memory.apply(memory.add("my secret", theme=""))
        assert "secret" not in str(refused.value)

    def test_a_key_too_long_for_an_index(self, memory):
        long = "".join(chr(0x4E00 + n * 7919 % 20000) for n in range(4000))
        with pytest.raises(UnstorableWrite, match="ProgramLimitExceeded"):
            memory.apply(memory.turn("x", session_id=long))

    def test_a_read_only_server_is_waited_for(self, store_on, memory, dsn):
        # A standby, or a primary in mid-failover: the same write may succeed later.
        name = sql.Identifier(conninfo_to_dict(dsn)["dbname"])
        alter = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on")
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(alter.format(name))
        batch = memory.accept(memory.add("x"))
        with pytest.raises(DatabaseUnavailable, match="read-only"):
            store_on(dsn).apply(batch, {})

    def test_a_journal_that_names_no_epoch(self, memory):
        memory.epoch = "not a uuid"
        with pytest.raises(UnstorableWrite):
            memory.apply(memory.add("x"))
