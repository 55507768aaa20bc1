"""Everything works behind a PgBouncer in transaction mode, on two connections."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from uuid import uuid4

import psycopg
import pytest
from middlemen_kit import Home, Pooler, add, contents, eventually, recall, rows
from psycopg.conninfo import conninfo_to_dict

from command_kit import Ran
from hermes_pgmemory.models import (
    Accepted,
    AddEntry,
    AddTurn,
    Role,
    Scope,
    Target,
    Theme,
)
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import Store, dump

Run = Callable[..., Ran]
NOW = datetime(2026, 1, 2, tzinfo=UTC)
FOREIGN_SESSIONS = """
SELECT count(*)::int FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


class TestEverything:
    def test_from_migrating_to_pruning(
        self, home: Home, run: Run, pooler: Pooler, new_database: Callable[..., str]
    ):
        direct = new_database()
        home.configure(dsn=pooler.dsn(direct))
        assert run("migrate").status == 0
        agent = home.agent("marketing")
        for number in range(12):
            add(agent, f"The code of shop {number} is {number * 7919}.")
            said = f"Did shop number {number} order the new leaflets last week?"
            agent.sync_turn(said, f"Yes, shop {number} did.", session_id="s1")
        agent.on_memory_write("remove", "memory", "", {"old_text": "shop 3 is"})
        eventually(lambda: len(contents(direct)) == 11)
        for _ in range(7):
            hits, degraded = recall(agent, "the code of shop 8")
            assert (hits[0], degraded) == ("The code of shop 8 is 63352.", None)
            assert "shop 8 is 63352" in agent.prefetch("What is the code of shop 8?")
        turns = {"query": "leaflets of shop 5"}
        assert json.loads(agent.handle_tool_call("recall_conversation", turns))["count"]
        agent.shutdown()
        bare = "embedding = NULL, model_id = NULL"
        rows(direct, f"UPDATE memory_entries SET {bare} RETURNING 1")
        for words in (
            ["status"],
            ["stats"],
            ["backfill"],
            ["cleanup", "--execute"],
            ["remap", "marketing", "sales", "--execute"],
            ["prune", "--days", "1", "--execute"],
            ["replay"],
        ):
            ran = run(*words)
            assert ran.status == 0, (words, ran.err)
        assert rows(direct, "SELECT DISTINCT agent_identity FROM memory_entries") == [
            ("sales",)
        ]
        bare = "SELECT count(*) FROM memory_entries WHERE embedding IS NULL"
        assert rows(direct, bare) == [(0,)]
        for words in (["index"], ["convert", "--execute"], ["reembed", "--execute"]):
            ran = run(*words)
            assert (ran.status, "through a pooler" in ran.err) == (1, True), words


def accepted(epoch: str, position: int, theme: str) -> list[Accepted]:
    """One entry and one turn, with positions of their own."""
    content = f"note {position} of {theme}"
    entry = AddEntry(theme=Theme(theme), target=Target.MEMORY, content=content, at=NOW)
    turn = AddTurn(
        theme=Theme(theme),
        session_id="s1",
        role=Role.USER,
        content=f"said {position} in {theme}",
        ordinal=1,
        at=NOW,
    )
    return [
        Accepted(epoch=epoch, position=2 * position + place, write=write)
        for place, write in enumerate([entry, turn], 1)
    ]


def live(dsn: str, theme: str, rounds: int, between: Callable[[int], object]) -> None:
    """Write and search like an agent, and see each write at once."""
    epoch = str(uuid4())
    with closing(Store(dsn, model="test")) as store:
        store.verify(timeout_s=30)
        for number in range(rounds):
            vectors = {0: [1.0, 0.0, number / rounds], 1: [0.0, 1.0, 0.0]}
            batch = accepted(epoch, number, theme)
            assert store.apply(batch, vectors, timeout_s=30) == 2
            scope = Scope(theme=Theme(theme), subject=None)
            note, said = (
                Question(text=text, vector=[1.0, 0.0, 0.5], scope=scope, limit=50)
                for text in ("note", "said")
            )
            assert len(store.search_entries(note, timeout_s=30)) == number + 1
            assert len(store.search_turns(said, timeout_s=30)) == number + 1
            between(number)


class TestTwoConnections:
    def test_serve_many_clients_at_once(self, pooler: Pooler, dsn: str):
        most = 0

        def look(_: int) -> None:
            nonlocal most
            most = max(most, rows(dsn, FOREIGN_SESSIONS)[0][0])

        themes = [f"theme {number}" for number in range(24)]
        with ThreadPoolExecutor(len(themes)) as pool:
            lives = [
                pool.submit(
                    live, pooler.dsn(dsn), theme, 8, look if not place else _nothing
                )
                for place, theme in enumerate(themes)
            ]
            for one in lives:
                one.result()
        assert rows(dsn, "SELECT count(*) FROM memory_entries") == [(24 * 8,)]
        assert rows(dsn, "SELECT count(*) FROM conversations") == [(24 * 8,)]
        assert 1 <= most <= 2

    def test_may_be_replaced_and_cleared_between_any_two_transactions(
        self, pooler: Pooler, dsn: str
    ):
        def swap(number: int) -> None:
            if number % 2:
                pooler.admin("RECONNECT")
            else:
                with psycopg.connect(pooler.dsn(dsn), autocommit=True) as other:
                    psycopg.ClientCursor(other).execute("DISCARD ALL")
                    psycopg.ClientCursor(other).execute("DEALLOCATE ALL")

        live(pooler.dsn(dsn), "work", 12, swap)

    def test_are_left_as_they_were(self, pooler: Pooler, dsn: str):
        """The next transaction on them is somebody else's."""
        live(pooler.dsn(dsn), "work", 8, _nothing)
        with psycopg.connect(pooler.dsn(dsn), autocommit=True) as other:
            for _ in range(4):
                ((timeout, locks, idle, prepared, held),) = other.execute(
                    "SELECT current_setting('statement_timeout'),"
                    "       current_setting('lock_timeout'),"
                    "       current_setting('idle_in_transaction_session_timeout'),"
                    "       (SELECT count(*) FROM pg_prepared_statements),"
                    "       (SELECT count(*) FROM pg_locks"
                    "         WHERE locktype = 'advisory' AND pid = pg_backend_pid())",
                    prepare=False,
                ).fetchall()
                assert (timeout, locks, idle, prepared, held) == ("0", "0", "0", 0, 0)

    def test_busy_with_others_are_an_outage_that_ends(self, pooler: Pooler, dsn: str):
        with closing(Store(pooler.dsn(dsn), model="test")) as store:
            taken = [psycopg.connect(pooler.dsn(dsn)) for _ in range(2)]
            for one in taken:
                one.execute("SELECT 1", prepare=False)
            with pytest.raises(Exception, match="did not answer within 1 s"):
                store.counts(timeout_s=1)
            for one in taken:
                one.close()
            eventually(lambda: _answers(store))


def test_a_verification_behind_it_is_no_stray_to_another(pooler: Pooler, dsn: str):
    """A pooler tells its clients process ids that the server does not know."""
    with dump.scratch(pooler.dsn(dsn)) as theirs:
        with dump.scratch(dsn):
            pass
        there = "SELECT datname FROM pg_database WHERE datname LIKE 'pgmemory_verify_%'"
        assert rows(dsn, there) == [(conninfo_to_dict(theirs)["dbname"],)]
    assert rows(dsn, there) == []


def test_agents_outlive_the_pooler(
    home: Home, pooler: Pooler, dsn_of: Callable[[int], str]
):
    direct = dsn_of(384)
    home.configure(dsn=pooler.dsn(direct), embed_on_write=False)
    agents = [home.agent(f"theme {number}") for number in range(3)]
    stop = threading.Event()
    written: list[str] = []

    def write() -> None:
        while not stop.wait(0.005):
            note = f"note {len(written)}"
            add(agents[len(written) % 3], note)
            written.append(note)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(2):
            enough = len(written) + 20
            eventually(lambda more=enough: len(contents(direct)) > more)
            pooler.kill()
            eventually(lambda: agents[0]._engine.writer.outage)
            pooler.start()
    finally:
        stop.set()
        writing.join()
    eventually(lambda: contents(direct) == written)


def _nothing(_: int) -> None:
    pass


def _answers(store: Store) -> bool:
    try:
        store.counts(timeout_s=5)
    except Exception:  # noqa: BLE001 - asked again until it does
        return False
    return True
