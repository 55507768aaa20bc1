"""From the host's hooks to rows, through the real journal, model and database."""

from __future__ import annotations

import fcntl
import gc
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest

from hermes_pgmemory import engines, housekeeping
from hermes_pgmemory.provider import PgvectorProvider

QUESTION = "Which colours did we settle on for the spring campaign?"
LATER = "And which paper does the print shop have in stock for that?"
REPLY = "We settled on teal and coral, as agreed with the print shop."


def add(agent, content, target="memory", **metadata):
    agent.on_memory_write("add", target, content, metadata)


class TestMirror:
    def test_an_added_note_becomes_a_row_with_a_vector(self, home, eventually):
        add(home.agent(gateway_session_key="marketing"), "The printer is on floor 2.")
        eventually(lambda: home.entries("marketing"))
        ((vector, source),) = home.rows(
            "SELECT embedding IS NOT NULL, source FROM memory_entries"
        )
        assert vector
        assert source

    def test_a_replacement_changes_the_one_entry_it_names(self, home, eventually):
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "Growth was 15% YoY in Q1")
        add(agent, "Growth was 15_ YoY in Q2")
        agent.on_memory_write(
            "replace", "memory", "Growth was 18% in Q1", {"old_text": "15% YoY"}
        )
        eventually(
            lambda: (
                home.entries("marketing")
                == ["Growth was 18% in Q1", "Growth was 15_ YoY in Q2"]
            )
        )

    def test_a_removal_takes_one_entry_and_a_blank_one_none(self, home, eventually):
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "prefers dark mode", "user")
        add(agent, "prefers tea", "user")
        agent.on_memory_write("remove", "user", "", {})
        agent.on_memory_write("remove", "user", "", {"old_text": "dark mode"})
        eventually(lambda: home.entries("marketing") == ["prefers tea"])

    def test_a_batch_takes_effect_in_its_order(self, home, eventually):
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "A stands")
        add(agent, "C stands")
        agent.on_memory_write("remove", "memory", "", {"old_text": "A stands"})
        add(agent, "B came")
        agent.on_memory_write("replace", "memory", "C moved", {"old_text": "C stands"})
        eventually(lambda: home.entries("marketing") == ["C moved", "B came"])

    def test_the_same_note_twice_is_one_row(self, home, eventually):
        agent = home.agent(gateway_session_key="marketing")
        for _ in range(3):
            add(agent, "once")
        add(agent, "last")
        eventually(lambda: home.entries("marketing") == ["once", "last"])

    def test_odd_text_arrives_cleaned_and_breaks_nothing(self, home, eventually):
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "o\x00ver \ud83c\udf78 and a lone \udc97")
        add(agent, "neighbour", platform="c\x00li")
        eventually(
            lambda: (
                home.entries("marketing") == ["over 🍸 and a lone \ufffd", "neighbour"]
            )
        )

    def test_other_contexts_only_recall(self, home, eventually):
        reader = home.agent(gateway_session_key="marketing", agent_context="subagent")
        writer = home.agent(gateway_session_key="marketing")
        add(reader, "from a subagent")
        reader.sync_turn(QUESTION, REPLY, session_id="s1")
        add(writer, "from the agent")
        eventually(lambda: home.entries("marketing") == ["from the agent"])
        assert home.turns("marketing") == []


class TestEmbedding:
    def test_can_be_left_to_the_command(self, home, eventually):
        home.configure(embed_on_write=False)
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "The printer is on floor 2.")
        eventually(lambda: home.entries("marketing"))
        agent.shutdown()
        assert home.rows("SELECT embedding IS NULL FROM memory_entries") == [(True,)]


class TestTurns:
    def test_both_sides_are_kept_under_the_named_session(self, home, eventually):
        agent = home.agent(gateway_session_key="marketing")
        agent.sync_turn(QUESTION, REPLY, session_id="other")
        eventually(
            lambda: (
                home.turns("marketing")
                == [("other", "user", QUESTION), ("other", "assistant", REPLY)]
            )
        )

    def test_the_end_of_a_session_repeats_nothing(self, home, eventually):
        agent = home.agent(gateway_session_key="marketing")
        history = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": REPLY},
        ]
        agent.sync_turn(QUESTION, REPLY, session_id="s1", messages=history)
        agent.on_session_end(history)
        agent.on_session_end([{"role": "user", "content": "summary " * 9}, *history])
        agent.shutdown()
        restarted = home.agent(gateway_session_key="marketing")
        restarted.on_session_end(history)
        add(restarted, "marker")
        eventually(lambda: home.entries("marketing"))
        said = [content for _, _, content in home.turns("marketing")]
        assert said.count(QUESTION) == 1
        assert said.count(REPLY) == 1

    def test_a_new_session_gets_its_own_turns(self, home, eventually):
        agent = home.agent("A", gateway_session_key="marketing")
        agent.sync_turn(QUESTION, REPLY)
        agent.on_session_switch("B", parent_session_id="A", reset=True)
        agent.sync_turn(QUESTION, REPLY)
        eventually(lambda: len(home.turns("marketing")) == 4)
        parents = home.rows(
            "SELECT DISTINCT session_id, parent_session_id"
            " FROM conversations ORDER BY 1"
        )
        assert parents == [("A", None), ("B", "A")]

    @pytest.mark.parametrize("reason", ["branch", "compression"])
    def test_what_a_session_brought_along_is_not_its_own_in_a_later_process(
        self, home, eventually, reason
    ):
        history = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": REPLY},
        ]
        agent = home.agent("A", gateway_session_key="marketing")
        agent.sync_turn(QUESTION, REPLY, messages=history)
        agent.on_session_switch("B", parent_session_id="A", reason=reason)
        agent.on_session_switch("C", parent_session_id="B", reason=reason)
        # The parent goes its own way.
        agent.on_session_switch("A", parent_session_id="C", reason="resume")
        agent.sync_turn(LATER, "ok")
        agent.shutdown()
        resumed = home.agent("C", gateway_session_key="marketing")
        resumed.on_session_end([*history, {"role": "user", "content": LATER}])
        eventually(lambda: len(home.turns("marketing")) == 4)
        assert home.turns("marketing")[2:] == [
            ("A", "user", LATER),
            ("C", "user", LATER),
        ]

    def test_what_a_private_chat_brought_along_is_noted_as_its_contacts(self, home):
        chat = home.agent("A", gateway_session_key="agent:main:telegram:dm:15550100001")
        speaker = chat._session.speaker
        chat.on_session_switch("B", parent_session_id="A", reason="branch")
        noted = (home.path / "pgvector" / "lineage").read_text()
        assert "15550100001" not in noted
        told = json.loads(noted)
        assert (told["theme"], told["subject"]) == (speaker.theme, speaker.subject)

    def test_delegations_leave_an_edge_and_a_turn(self, home, eventually):
        agent = home.agent("parent", gateway_session_key="marketing")
        agent.on_delegation("Find print shops", "Two found", child_session_id="child")
        eventually(lambda: home.turns("marketing"))
        assert home.rows(
            "SELECT parent_identity, parent_session_id, child_session_id, task"
            " FROM memory_agent_edges"
        ) == [("marketing", "parent", "child", "Find print shops")]

    def test_a_delegation_that_ends_after_shutdown_is_kept(self, home, eventually):
        agent = home.agent("parent", gateway_session_key="marketing")
        agent.shutdown()
        agent.on_delegation("Find print shops", "Two found", child_session_id="child")
        eventually(lambda: home.turns("marketing"))


class TestFiles:
    def test_entries_are_imported_whatever_their_encoding(self, home, eventually):
        file = home.path / "memories" / "MEMORY.md"
        file.write_bytes(
            b"\xef\xbb\xbfFirst entry\r\n\xc2\xa7\r\nSecond entry\n\xc2\xa7\ncaf\xe9"
        )
        os.utime(file, (1_700_000_000, 1_700_000_000))
        home.agent(agent_identity="work")
        eventually(lambda: home.entries("work") == ["First entry", "Second entry"])
        ((created,),) = home.rows("SELECT DISTINCT created_at FROM memory_entries")
        assert created == datetime.fromtimestamp(1_700_000_000, UTC)

    def test_an_entry_that_a_theme_wrote_is_not_imported_into_another(
        self, home, eventually
    ):
        file = home.path / "memories" / "MEMORY.md"
        add(home.agent(gateway_session_key="marketing"), "written by marketing")
        eventually(lambda: home.entries("marketing"))
        file.write_text("written by marketing\n§\nwritten by hand")
        os.utime(file, (1_700_000_000, 1_700_000_000))
        home.agent(gateway_session_key="sales")
        eventually(lambda: home.entries("hermes") == ["written by hand"])
        assert home.entries("sales") == []

    def test_a_note_from_a_private_chat_is_never_imported(self, home, eventually):
        """Not even while its own row is still on its way."""
        file = home.path / "memories" / "MEMORY.md"
        private = "Clara's surprise party is on Friday"
        chat = home.agent(gateway_session_key="agent:main:telegram:dm:15550100001")
        chat._share(chat._session).private_notes.add(private)
        file.write_text(f"{private}\n§\nfor everybody")
        os.utime(file, (1_700_000_000, 1_700_000_000))
        home.agent(agent_identity="work")
        eventually(lambda: home.entries("work") == ["for everybody"])

    def test_what_a_private_chat_notes_is_known_to_be_private(self, home):
        chat = home.agent(gateway_session_key="agent:main:telegram:dm:15550100001")
        add(chat, "my own secret")
        notes = chat._share(chat._session).private_notes
        assert notes.without(("my own secret", "other")) == ("other",)
        (path,) = (home.path / "pgvector").glob("private-notes")
        assert path.stat().st_mode & 0o077 == 0
        assert "secret" not in path.read_text()

    def test_the_home_that_the_host_names_counts(
        self, home, eventually, monkeypatch, tmp_path
    ):
        elsewhere = tmp_path / "ambient"
        (elsewhere / "memories").mkdir(parents=True)
        (elsewhere / "memories" / "MEMORY.md").write_text("not mine")
        monkeypatch.setenv("HERMES_HOME", str(elsewhere))
        file = home.path / "memories" / "MEMORY.md"
        file.write_text("mine")
        os.utime(file, (1_700_000_000, 1_700_000_000))
        home.agent(agent_identity="work")
        eventually(lambda: home.entries("work") == ["mine"])


class TestOutages:
    def test_writes_wait_and_arrive_in_order_with_their_own_time(
        self, home, outage, eventually, caplog
    ):
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "before")
        eventually(lambda: home.entries("marketing"))
        outage.begin()
        began = datetime.now(UTC)
        add(agent, "first")
        agent.on_memory_write("replace", "memory", "second", {"old_text": "first"})
        add(agent, "third")
        writer = agent._engine.writer
        eventually(lambda: writer.outage)
        ended = datetime.now(UTC)
        outage.end()
        eventually(lambda: home.entries("marketing") == ["before", "second", "third"])
        rows = home.rows(
            "SELECT created_at FROM memory_entries WHERE content <> 'before'"
        )
        assert all(began <= created <= ended for (created,) in rows)
        eventually(lambda: writer.outage is None)
        told = [r for r in caplog.records if "kept in the journal" in r.message]
        assert len(told) == 1

    def test_what_another_process_adopts_holds_up_nobody(
        self, home, eventually, monkeypatch
    ):
        monkeypatch.setattr(housekeeping, "ADOPT_EVERY_S", 0.01)
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "before")
        eventually(lambda: home.entries("marketing"))
        with (home.path / "pgvector" / "journal" / "adoption.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for number in range(3):
                add(agent, f"note {number}")
                eventually(lambda: agent._engine.journal_depth == 0, within_s=5)
        assert len(home.entries("marketing")) == 4
        assert agent._engine.writer.outage is None

    def test_recall_says_so_and_recovers(self, home, outage, eventually):
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "The printer is on floor 2.")
        eventually(lambda: home.entries("marketing"))
        outage.begin()
        answer = agent.handle_tool_call("recall_memory", {"query": "printer"})
        assert "degraded" in answer
        assert agent.prefetch("Where is the printer?") == ""
        outage.end()
        agent._engine.recall._library_breaker.reset()
        answer = agent.handle_tool_call("recall_memory", {"query": "printer"})
        assert "floor 2" in answer


class TestMisfortune:
    def test_a_failed_start_leaves_no_earlier_agent_attached(self, home, eventually):
        agent = home.agent(gateway_session_key="anna")
        (home.path / "config.yaml").write_text("plugins: [broken")
        agent.initialize("s2", hermes_home=str(home.path), gateway_session_key="boris")
        add(agent, "for boris only")
        home.configure()
        witness = home.agent(gateway_session_key="witness")
        add(witness, "marker")
        eventually(lambda: home.entries("witness"))
        assert home.entries("anna") == []

    def test_a_deleted_journal_is_told_and_what_it_held_is_stored(
        self, home, eventually, caplog
    ):
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "before")
        eventually(lambda: home.entries("marketing"))
        shutil.rmtree(home.path / "pgvector" / "journal")
        add(agent, "after")
        eventually(lambda: home.entries("marketing") == ["before", "after"])
        eventually(lambda: "was deleted under this process" in caplog.text)

    def test_a_dsn_that_is_no_string_never_means_the_default_database(
        self, home, eventually, caplog
    ):
        home.configure(dsn=["host=db"])
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "kept")
        eventually(lambda: agent._engine.writer.outage)
        assert "plugins.pgvector.dsn" in caplog.text
        assert agent._engine.server is None
        assert agent._engine.journal_depth


class TestProcesses:
    WRITER = """
import sys
from hermes_pgmemory.provider import PgvectorProvider
provider = PgvectorProvider()
provider.initialize("s1", hermes_home=sys.argv[1], platform="cli",
                    agent_context="primary", gateway_session_key="marketing")
number = 0
while True:
    provider.on_memory_write("add", "memory", f"note number {number}", {})
    print(number, flush=True)
    number += 1
"""

    def test_a_killed_agent_loses_nothing_and_doubles_nothing(self, home, eventually):
        writer = subprocess.Popen(
            [sys.executable, "-c", self.WRITER, str(home.path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        accepted = [int(writer.stdout.readline()) for _ in range(200)]
        writer.send_signal(signal.SIGKILL)
        accepted += map(int, writer.stdout.read().split())
        writer.stdout.close()
        writer.wait()
        home.agent(gateway_session_key="sales")
        expected = [f"note number {n}" for n in accepted]
        eventually(lambda: home.entries("marketing")[: len(expected)] == expected)
        assert len(home.entries("marketing")) <= len(expected) + 1

    def test_a_forked_child_has_an_engine_of_its_own(self, home, eventually):
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "parent before")
        fork = multiprocessing.get_context("fork")
        done = fork.Event()

        def live_on() -> None:
            add(agent, "child")
            done.wait(60)
            os._exit(0)

        child = fork.Process(target=live_on)
        child.start()
        add(agent, "parent after")
        # The child stores what is its own, while both of them live.
        eventually(lambda: len(home.entries("marketing")) == 3)
        done.set()
        child.join()

    def test_many_agents_share_threads_and_connections(self, home, eventually):
        before = threading.active_count()
        agents = [home.agent(gateway_session_key=f"theme {n}") for n in range(100)]
        for number, agent in enumerate(agents):
            add(agent, f"note {number}")
        eventually(lambda: home.rows("SELECT count(*) FROM memory_entries") == [(100,)])
        assert threading.active_count() - before <= 5
        ((connections,),) = home.rows(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND application_name = 'hermes-pgmemory'"
        )
        assert connections <= 4

    def test_agents_nobody_shuts_down_leave_nothing_behind(self, home):
        agent = PgvectorProvider()
        for _ in range(50):
            agent = home.agent(gateway_session_key="marketing")
            home.providers.clear()
        assert len(engines._engines) == 1
        ((_, references),) = engines._engines.values()
        # The one before the last is noted when the next comes.
        assert references <= 2
        agent.shutdown()
        assert not engines._engines

    def test_the_garbage_collector_may_run_while_an_engine_is_made(
        self, home, monkeypatch
    ):
        """It takes forgotten providers, on whatever thread it happens to run."""
        home.agent(gateway_session_key="marketing")
        forgotten = home.providers.pop()
        forgotten.cycle = forgotten
        del forgotten
        home.configure(embed_on_write=False)  # another engine is needed
        made = engines.Engine.__init__

        def collecting(self, *args):
            gc.collect()
            made(self, *args)

        monkeypatch.setattr(engines.Engine, "__init__", collecting)
        add(home.agent(gateway_session_key="marketing"), "not stuck")

    def test_after_the_last_shutdown_no_thread_of_ours_is_left(self, home):
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "note")
        agent.shutdown()
        assert home.entries("marketing") == ["note"]
        names = [thread.name for thread in threading.enumerate()]
        assert not [name for name in names if name.startswith("pgmemory")]

    def test_two_profiles_in_one_process_do_not_mix(
        self, home, eventually, tmp_path, new_database, local_template
    ):
        other = type(home)(tmp_path / "other", new_database(template=local_template))
        try:
            first = home.agent(gateway_session_key="marketing")
            other.agent(gateway_session_key="marketing")
            add(first, "for the first")
            eventually(lambda: home.entries("marketing") == ["for the first"])
            assert other.entries("marketing") == []
        finally:
            for provider in other.providers:
                provider.shutdown()
