"""Few connections, none left in a transaction, none waited for too long."""

from __future__ import annotations

import logging
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from time import monotonic

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_pgmemory.errors import DatabaseBusy, DatabaseUnavailable, UnstorableWrite
from hermes_pgmemory.models import Scope
from hermes_pgmemory.store import connection
from hermes_pgmemory.store.queries import QUERIES

OURS = """
    SELECT state FROM pg_stat_activity
     WHERE application_name = 'hermes-pgmemory' AND datname = current_database()
"""
PIDS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'hermes-pgmemory'"


def pool_threads():
    return [t for t in threading.enumerate() if t.name.startswith("hermes-pgmemory-")]


@contextmanager
def within(seconds):
    start = monotonic()
    yield
    assert monotonic() - start < seconds


@contextmanager
def locked(dsn, table):
    with psycopg.connect(dsn) as conn:
        conn.execute(sql.SQL("LOCK {}").format(sql.Identifier(table)))
        yield
        conn.rollback()


class TestThreadsAndConnections:
    def test_there_are_none_before_the_first_call(self, store_on, memory, dsn):
        before = pool_threads()
        store_on(dsn)
        store_on("host=nowhere.invalid")
        assert pool_threads() == before
        assert memory.query(OURS) == []

    def test_they_end_with_the_store(self, store_on, memory, dsn, eventually):
        before = pool_threads()
        store = store_on(dsn)
        store.counts(timeout_s=5)
        assert len(pool_threads()) > len(before)
        store.close()
        store.close()
        assert pool_threads() == before
        eventually(lambda: memory.query(OURS) == [])
        with pytest.raises(DatabaseUnavailable, match="the store is closed"):
            store.counts(timeout_s=5)

    def test_a_store_never_used_may_be_closed(self, store_on, dsn):
        store = store_on(dsn)
        store.close()
        with pytest.raises(DatabaseUnavailable, match="the store is closed"):
            store.counts(timeout_s=5)

    def test_idle_connections_are_closed(self, store_on, memory, dsn, eventually):
        store = store_on(dsn, max_idle_s=0.05)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: store.counts(timeout_s=5), range(16)))
        eventually(lambda: memory.query(OURS) == [])
        assert store.counts(timeout_s=5) == []

    def test_there_are_never_more_than_the_pool_may_hold(self, store_on, memory, dsn):
        store = store_on(dsn, pool_size=2)
        with locked(dsn, "conversations"), ThreadPoolExecutor(6) as pool:
            calls = [pool.submit(store.counts, timeout_s=0.5) for _ in range(6)]
            for call in calls:
                assert isinstance(call.exception(5), DatabaseUnavailable)
        assert len(memory.query(OURS)) <= 2
        assert store.counts(timeout_s=5) == []

    def test_a_full_server_is_shared(self, store_on, dsn, new_role, eventually):
        # Others may hold the rest: a connection given back serves the next caller.
        role = new_role()
        one = sql.SQL("ALTER ROLE {} CONNECTION LIMIT 1").format(sql.Identifier(role))
        grant = sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}")
        with psycopg.connect(dsn) as conn:
            conn.execute(one)
            conn.execute(grant.format(sql.Identifier(role)))
        store = store_on(make_conninfo(dsn, user=role))
        with ThreadPoolExecutor(1) as pool:
            with store._database.transaction(10):
                call = pool.submit(store.counts, timeout_s=10)
                eventually(lambda: store._database._outage.failures > 0)
                assert wait([call], timeout=0.3).not_done == {call}
            assert call.result(10) == []
        with (
            store._database.transaction(5),
            pytest.raises(DatabaseUnavailable, match="too many connections for role"),
        ):
            store.counts(timeout_s=0.3)


class TestTransactions:
    def test_none_stays_open_after_an_error(self, memory, dsn):
        nowhere = Scope(theme=None, subject=None)
        with pytest.raises(UnstorableWrite):
            memory.apply(memory.add("a\x00"))
        with pytest.raises(UnstorableWrite):
            memory.apply(memory.turn("x"), vectors={0: [float("nan"), 0, 0]})
        with locked(dsn, "memory_entries"), pytest.raises(DatabaseUnavailable):
            memory.entries("x", scope=nowhere, timeout_s=0.2)
        assert memory.entries("x", scope=nowhere) == []
        assert set(memory.query(OURS)) == {"idle"}

    def test_leave_no_setting_behind(self, memory):
        memory.entries("x", timeout_s=3)
        with memory.store._database.transaction(5) as conn:
            changed = conn.execute(
                "SELECT name FROM pg_settings WHERE source = 'session'"
                " AND name NOT IN ('application_name', 'client_encoding')"
            ).fetchall()
        names = {name for (name,) in changed}
        whole = {"transaction_timeout", "idle_in_transaction_session_timeout"}
        assert names - whole == {
            *("client_min_messages", "lock_timeout", "statement_timeout")
        }
        assert len(names & whole) == 1
        with memory.store._database._pool.connection() as conn:
            left = conn.execute(
                "SELECT name FROM pg_settings WHERE source = 'session'"
                " AND name NOT IN ('application_name', 'client_encoding')"
            ).fetchall()
        assert left == []

    def test_prepare_nothing_on_the_server(self, memory):
        # Behind a pooler the next statement may meet another server process.
        for n in range(8):
            memory.apply(memory.add(f"{n}"), memory.turn(f"{n}"))
            memory.entries("x", vector=[1, 0, 0])
            with memory.store._database.transaction(5) as conn:
                prepared = conn.execute("SELECT name FROM pg_prepared_statements")
                assert prepared.fetchall() == []
            with memory.store._database.transaction(5) as conn:
                conn.execute("DEALLOCATE ALL")


class TestTimeLimits:
    def test_a_lock_is_not_waited_for_longer(self, memory, dsn):
        with (
            locked(dsn, "memory_entries"),
            within(3),
            pytest.raises(DatabaseBusy, match=r"within 0\.3 s"),
        ):
            memory.entries("x", timeout_s=0.3)
        assert memory.entries("x") == []

    def test_a_full_pool_is_not_waited_for_longer(self, store_on, dsn):
        store = store_on(dsn, pool_size=1)
        with (
            store._database.transaction(5),
            within(3),
            pytest.raises(DatabaseBusy, match=r"within 0\.3 s"),
        ):
            store.counts(timeout_s=0.3)
        assert store.counts(timeout_s=5) == []

    def test_an_agent_that_froze_in_mid_write_holds_nobody_up(
        self, store_on, store, dsn
    ):
        def lock(conn):
            conn.execute(QUERIES["lock_theme"], {"theme": "work"}).fetchall()

        def freeze():
            with store_on(dsn)._database.transaction(0.3) as frozen:
                lock(frozen)
                with within(8), store._database.transaction(8) as other:
                    lock(other)
                lock(frozen)

        with pytest.raises(DatabaseUnavailable):
            freeze()

    def test_no_time_at_all_is_too_little(self, store):
        with pytest.raises(DatabaseUnavailable):
            store.counts(timeout_s=0)

    @pytest.mark.skipif("PG_TEST_DSN" in os.environ, reason="stops server processes")
    def test_a_server_that_froze_in_mid_call_is_given_up(self, memory, dsn, eventually):
        with locked(dsn, "memory_entries"), ThreadPoolExecutor(1) as pool:
            call = pool.submit(memory.entries, "x", timeout_s=0.7)
            waiting = f"{PIDS} AND wait_event_type = 'Lock'"
            eventually(lambda: memory.query(waiting))
            (pid,) = memory.query(waiting)
            os.kill(pid, signal.SIGSTOP)
            try:
                with within(5):
                    assert isinstance(call.exception(10), DatabaseUnavailable)
            finally:
                os.kill(pid, signal.SIGCONT)
        assert memory.entries("x") == []

    @pytest.mark.skipif("PG_TEST_DSN" in os.environ, reason="stops server processes")
    def test_a_server_process_that_froze_while_idle_fails_no_call(
        self, memory, monkeypatch
    ):
        monkeypatch.setattr(connection, "ALIVE_S", 0)  # as if it were idle for long
        memory.entries("x")
        (pid,) = memory.query(f"{PIDS} AND datname = current_database()")
        os.kill(pid, signal.SIGSTOP)
        try:
            with within(8):
                assert memory.entries("x", timeout_s=8) == []
        finally:
            os.kill(pid, signal.SIGCONT)


class TestOutages:
    def test_dead_idle_connections_fail_no_call(self, store_on, memory, dsn):
        store = store_on(dsn, pool_size=4)
        barrier = threading.Barrier(4)

        def hold(_):
            with store._database.transaction(5):
                barrier.wait(5)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(hold, range(4)))
        assert len(memory.query(OURS)) == 4
        memory.query(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'hermes-pgmemory'"
            " AND datname = current_database()"
        )
        for _ in range(5):
            assert store.counts(timeout_s=5) == []

    def test_are_noticed_at_once_and_so_is_their_end(self, store_on, server, template):
        name = f"pgmemory_late_{os.getpid()}"
        store = store_on(make_conninfo(server, dbname=name))
        clone = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        with psycopg.connect(server, autocommit=True) as admin:
            with within(5), pytest.raises(DatabaseUnavailable, match="does not exist"):
                store.counts(timeout_s=30)
            admin.execute(clone.format(sql.Identifier(name), sql.Identifier(template)))
            try:
                assert store.counts(timeout_s=5) == []
            finally:
                store.close()
                admin.execute(drop.format(sql.Identifier(name)))

    def test_are_told_to_callers_and_not_to_the_log(self, store_on, server, caplog):
        caplog.set_level(logging.WARNING)
        store = store_on(make_conninfo(server, dbname="nowhere", password="s3cret"))
        for _ in range(5):
            with pytest.raises(DatabaseUnavailable):
                store.counts(timeout_s=5)
        assert caplog.records == []

    def test_in_mid_call_leave_no_trace_in_the_log(self, memory, caplog):
        caplog.set_level(logging.WARNING)

        def be_cut_off():
            with memory.store._database.transaction(5) as conn:
                pid = conn.execute("SELECT pg_backend_pid()").fetchall()[0]
                memory.query("SELECT pg_terminate_backend(%s, 5000)", *pid)
                conn.execute("SELECT 1").fetchall()

        with pytest.raises(DatabaseUnavailable, match="connection"):
            be_cut_off()
        assert memory.entries("x") == []
        assert caplog.records == []

    def test_of_others_are_still_logged(self, store, caplog):
        store.counts(timeout_s=5)
        logging.getLogger("psycopg.pool").warning("error connecting in %r: x", "theirs")
        assert [r.message for r in caplog.records] == [
            "error connecting in 'theirs': x"
        ]


def test_the_password_reaches_no_log_at_any_level(store_on, server, caplog):
    caplog.set_level(logging.DEBUG)
    target = conninfo_to_dict(server)
    for dbname in (target["dbname"], "nowhere"):
        given = {**target, "dbname": dbname, "password": "s3 @cret"}
        store = store_on(make_conninfo(**given))
        with pytest.raises(Exception, match=r".") as failed:
            store.counts(timeout_s=5)
        assert "cret" not in f"{failed.value!r} {failed.value.__cause__!r}"
        store.close()
    assert "cret" not in caplog.text
