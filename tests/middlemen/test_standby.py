"""A standby answers for the primary, takes its place, and is never missed."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from time import monotonic

import pytest
from middlemen_kit import Home, add, contents, eventually, recall

from command_kit import Ran
from hermes_pgmemory.metrics import STANDBY_SEARCHES
from hermes_pgmemory.models import Scope, Theme
from hermes_pgmemory.provider import PgvectorProvider
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import standby as standbys
from hermes_pgmemory.store.standby import ReplicatedStore


def searches(outcome: str) -> int:
    return int(STANDBY_SEARCHES.labels(outcome=outcome)._value.get())


@contextmanager
def counted(outcome: str) -> Iterator[Callable[[], int]]:
    """Count the searches that end so from here on."""
    before = searches(outcome)
    yield lambda: searches(outcome) - before


def stored(agent: PgvectorProvider, *notes: str) -> None:
    """Have *notes* stored, and return as soon as the agent knows they are."""
    for note in notes:
        add(agent, note)
    eventually(lambda: not agent._engine.journal_depth)


def caught_up(pair) -> None:
    ((lsn,),) = pair.primary.ask("SELECT pg_current_wal_insert_lsn()::text")
    reached = f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'"
    eventually(lambda: pair.standby.ask(reached) == [(True,)])


@pytest.fixture
def agent(home: Home, whole_pair) -> PgvectorProvider:
    home.configure(
        dsn=whole_pair.dsn, dsn_read=whole_pair.dsn_read, embed_on_write=False
    )
    agent = home.agent("marketing")
    stored(agent, "The printer is on floor 2.")
    caught_up(whole_pair)
    return agent


class TestReading:
    def test_the_standby_answers(self, agent: PgvectorProvider):
        with counted("answered") as answered:
            found = recall(agent, "printer")
            assert found == (["The printer is on floor 2."], None)
            assert answered() == 1

    def test_it_does_while_the_primary_is_not_searched_at_all(
        self, agent: PgvectorProvider, whole_pair
    ):
        searched = (
            "SELECT coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0)::int"
            "  FROM pg_stat_user_tables WHERE relname = 'memory_entries'"
        )
        settled = "SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()"
        recall(agent, "printer")
        agent._engine._store.counts(timeout_s=5)
        whole_pair.primary.ask(settled, "memory")
        before = whole_pair.primary.ask(searched, "memory")
        for _ in range(5):
            recall(agent, "printer")
        assert whole_pair.primary.ask(searched, "memory") == before

    def test_what_the_agent_has_just_stored_is_found(self, agent: PgvectorProvider):
        with counted("answered") as answered:
            for number in range(30):
                stored(agent, f"Shop {number} has opened.")
                hits, degraded = recall(agent, f"shop {number} opened")
                assert degraded is None
                assert f"Shop {number} has opened." in hits
            eventually(lambda: recall(agent, "shop") and answered())

    def test_also_while_the_standby_lags(self, agent: PgvectorProvider, whole_pair):
        whole_pair.standby.ask("SELECT pg_wal_replay_pause()")
        try:
            stored(agent, "The scanner is on floor 3.")
            with counted("behind") as behind:
                hits, degraded = recall(agent, "scanner")
                assert (hits[0], degraded) == ("The scanner is on floor 3.", None)
                assert behind() == 1
        finally:
            whole_pair.standby.ask("SELECT pg_wal_replay_resume()")
        caught_up(whole_pair)
        with counted("answered") as answered:
            assert recall(agent, "scanner")[0][0] == "The scanner is on floor 3."
            assert answered() == 1

    def test_what_others_stored_is_missing_for_a_moment_at_most(
        self,
        agent: PgvectorProvider,
        whole_pair,
        home: Home,
        monkeypatch: pytest.MonkeyPatch,
    ):
        home.configure(dsn=whole_pair.dsn, embed_on_write=False)
        other = home.agent("marketing")
        whole_pair.standby.ask("SELECT pg_wal_replay_pause()")
        try:
            stored(other, "The scanner is on floor 3.")
            monkeypatch.setattr(standbys, "FRESH_S", 0.0)
            assert recall(agent, "scanner")[0] == ["The scanner is on floor 3."]
        finally:
            whole_pair.standby.ask("SELECT pg_wal_replay_resume()")

    def test_another_database_is_never_taken_for_the_standby(
        self, agent: PgvectorProvider, home: Home, whole_pair, dsn_of, caplog
    ):
        home.configure(dsn=whole_pair.dsn, dsn_read=dsn_of(384), embed_on_write=False)
        misled = home.agent("marketing")
        for _ in range(3):
            assert recall(misled, "printer") == (["The printer is on floor 2."], None)
        told = [r.message for r in caplog.records if "dsn_read" in r.message]
        assert len(told) == 1
        assert "not a standby" in told[0]

    @pytest.mark.parametrize("wrong", ["postgresql://a:b@c@d/x", 7])
    def test_a_setting_that_is_none_costs_one_line(
        self, home: Home, whole_pair, caplog, wrong
    ):
        home.configure(dsn=whole_pair.dsn, dsn_read=wrong, embed_on_write=False)
        agent = home.agent("marketing")
        stored(agent, "The printer is on floor 2.")
        assert recall(agent, "printer") == (["The printer is on floor 2."], None)
        assert len([r for r in caplog.records if "dsn_read" in r.message]) == 1


class TestDying:
    def test_of_the_standby_is_one_line_and_no_error(
        self, home: Home, pair, caplog: pytest.LogCaptureFixture
    ):
        home.configure(dsn=pair.dsn, dsn_read=pair.dsn_read, embed_on_write=False)
        agent = home.agent("marketing")
        stored(agent, "The printer is on floor 2.")
        caught_up(pair)
        expected = (["The printer is on floor 2."], None)
        assert recall(agent, "printer") == expected
        pair.standby.kill()
        with caplog.at_level(logging.WARNING, "hermes_pgmemory"):
            for _ in range(5):
                assert recall(agent, "printer") == expected
            pair.standby.start()
            agent._engine._store._breaker._next_trial = 0.0  # its pause is over
            with counted("answered") as answered:
                eventually(lambda: recall(agent, "printer") == expected and answered())
        told = [r.message for r in caplog.records if "standby" in r.message]
        away, back = told
        assert away.startswith("recall asks the primary instead of the standby: ")
        assert back == "recall asks the standby again"

    def test_of_its_network_takes_half_of_one_searchs_time(self, whole_pair):
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            dsn_read = f"host=127.0.0.1 port={deaf.getsockname()[1]} dbname=memory"
            with closing(ReplicatedStore(whole_pair.dsn, dsn_read)) as store:
                for most_s in (1.5, 0.5):
                    started = monotonic()
                    scope = Scope(theme=Theme("marketing"), subject=None)
                    question = Question(
                        text="printer", vector=None, scope=scope, limit=5
                    )
                    store.search_entries(question, timeout_s=2)
                    assert monotonic() - started < most_s

    def test_of_the_primary_leaves_recall_to_the_standby(self, home: Home, pair):
        home.configure(dsn=pair.dsn, dsn_read=pair.dsn_read, embed_on_write=False)
        agent = home.agent("marketing")
        stored(agent, "The printer is on floor 2.")
        caught_up(pair)
        pair.primary.kill()
        add(agent, "The scanner is on floor 3.")
        eventually(lambda: agent._engine.writer.outage)
        for _ in range(3):
            hits, degraded = recall(agent, "printer")
            assert hits == ["The printer is on floor 2."]
            assert "the last 1 writes are not searchable yet" in degraded
        assert agent._engine.journal_depth == 1


class TestPromotion:
    def test_loses_and_doubles_nothing_that_agents_write_meanwhile(
        self, home: Home, pair
    ):
        """As long as a commit waits for the standby, which the page on it asks for."""
        pair.primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        pair.primary.ask("SELECT pg_reload_conf()")
        home.configure(dsn=pair.dsn_both, dsn_read=pair.dsn_read, embed_on_write=False)
        agents = [home.agent(f"theme {number}") for number in range(3)]
        written: list[str] = []
        stop = threading.Event()

        def write() -> None:
            while not stop.wait(0.002):
                number = len(written)
                agent = agents[number % 3]
                note = f"note {number}"
                add(agent, note)
                if number % 10 == 9:
                    change = {"old_text": note}
                    note = f"changed {number}"
                    agent.on_memory_write("replace", "memory", note, change)
                written.append(note)
                recall(agent, note)

        writing = threading.Thread(target=write)
        writing.start()
        try:
            eventually(lambda: len(contents(pair.dsn)) > 50)
            pair.primary.kill()
            assert pair.standby.ask("SELECT pg_promote()") == [(True,)]
            enough = len(written) + 50
            eventually(lambda: len(contents(pair.dsn_read)) > enough)
        finally:
            stop.set()
            writing.join()
        eventually(lambda: len(contents(pair.dsn_read)) >= len(written))
        assert contents(pair.dsn_read) == written
        # Whoever still holds a connection to the dead one may have to ask twice.
        eventually(lambda: recall(agents[0], "note")[1] is None)


def test_status_tells_of_the_standby(run: Callable[..., Ran], home: Home, whole_pair):
    home.configure(dsn=whole_pair.dsn, dsn_read=whole_pair.dsn_read)
    ran = run("status", "--json")
    assert ran.data["parts"]["standby"]["state"] == "ok"
    home.configure(dsn=whole_pair.dsn, dsn_read="host=/nowhere password=hush")
    ran = run("status", "--json")
    assert ran.data["parts"]["standby"]["state"] == "unavailable"
    assert "dsn_read" in ran.data["parts"]["standby"]["detail"]
    assert "hush" not in ran.out
