"""MEMORY.md and USER.md change without a hook; the rows follow."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial

import psycopg
import pytest

from hermes_pgmemory import cli, engines, housekeeping, memory_files
from hermes_pgmemory.codec import encode
from hermes_pgmemory.journal import Journal
from hermes_pgmemory.models import AddEntry, Target, Theme
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.queries import QUERIES

CONTACT = "agent:main:telegram:dm:15550100001"
LONG_AGO = 1_700_000_000


@pytest.fixture
def edit(home):
    """Write a memory file as the host does, as if that were long ago."""
    return partial(edit_in, home)


def edit_in(home, *entries, name="MEMORY.md"):
    path = home.path / "memories" / name
    before = path.stat().st_mtime if path.exists() else LONG_AGO
    fresh = path.with_name(".mem_x.tmp")
    fresh.write_text("\n§\n".join(entries))
    os.utime(fresh, (before + 1, before + 1))
    fresh.replace(path)


def retired(home, theme):
    rows = home.rows(
        "SELECT content FROM memory_entries WHERE agent_identity = %s"
        " AND retired_at IS NOT NULL ORDER BY id",
        theme,
    )
    return [content for (content,) in rows]


def recalled(agent, query):
    answer = json.loads(agent.handle_tool_call("recall_memory", {"query": query}))
    return [hit["content"] for hit in answer["results"]]


def add(agent, content):
    agent.on_memory_write("add", "memory", content, {})


def calling(tool, arguments):
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}


def warnings(caplog):
    return [r.message for r in caplog.records if r.levelno >= logging.WARNING]


@contextmanager
def another_process(home, *writes):
    """Hold the journal of a process that lives, and has accepted *writes*."""
    folder = HomePaths(home.path).journal
    with closing(Journal.claim(folder, quota_bytes=1 << 20)) as journal:
        journal.append([encode(write) for write in writes])
        yield


def entry_of(home, content, theme="marketing"):
    return AddEntry(
        theme=Theme(theme),
        target=Target.MEMORY,
        content=content,
        at=datetime.now(UTC),
        source=memory_files.sources(HomePaths(home.path))[Target.MEMORY],
    )


class TestAChangedFile:
    def test_what_is_gone_from_it_is_not_recalled_and_not_deleted(
        self, home, edit, eventually
    ):
        edit("the printer is on floor 2", "tea at four", "likes jazz")
        agent = home.agent()
        eventually(lambda: len(home.entries("hermes")) == 3)
        edit("tea at four", "likes jazz", "a new one")
        agent.on_session_end([])
        eventually(lambda: "a new one" in home.entries("hermes"))
        assert home.entries("hermes") == ["tea at four", "likes jazz", "a new one"]
        assert retired(home, "hermes") == ["the printer is on floor 2"]
        assert "the printer is on floor 2" not in recalled(agent, "printer floor 2")
        assert "printer" not in agent.prefetch("Which floor is the printer on?")

    def test_is_noticed_by_the_next_agent(self, home, edit, eventually):
        edit("one", "two", "three")
        home.agent()
        eventually(lambda: len(home.entries("hermes")) == 3)
        edit("one", "three")
        home.agent("s2")
        eventually(lambda: home.entries("hermes") == ["one", "three"])

    def test_is_noticed_without_any_hook(self, home, edit, eventually, monkeypatch):
        monkeypatch.setattr(housekeeping, "ADOPT_EVERY_S", 0.05)
        edit("one", "two", "three")
        home.agent()
        eventually(lambda: len(home.entries("hermes")) == 3)
        edit("one", "three")
        eventually(lambda: home.entries("hermes") == ["one", "three"])

    def test_what_comes_back_is_recalled_again(self, home, edit, eventually):
        edit("one", "two", "three")
        agent = home.agent()
        eventually(lambda: len(home.entries("hermes")) == 3)
        edit("one", "three")
        agent.on_session_end([])
        eventually(lambda: retired(home, "hermes") == ["two"])
        edit("one", "two", "three")
        agent.on_session_end([])
        eventually(lambda: home.entries("hermes") == ["one", "two", "three"])
        assert retired(home, "hermes") == []

    def test_what_the_tool_adds_again_is_recalled_again_and_stays(
        self, home, edit, eventually
    ):
        edit("one", "two", "three")
        agent = home.agent()
        eventually(lambda: len(home.entries("hermes")) == 3)
        edit("one", "three")
        agent.on_session_end([])
        eventually(lambda: retired(home, "hermes") == ["two"])
        edit("one", "three", "two")
        add(agent, "two")
        eventually(lambda: "two" in home.entries("hermes"))
        edit("one", "three", "four", "two")
        agent.on_session_end([])
        eventually(lambda: "four" in home.entries("hermes"))
        assert retired(home, "hermes") == []

    def test_one_that_has_not_changed_is_not_read(self, home, edit, eventually):
        edit("one", "two", "three")
        agent = home.agent()
        eventually(lambda: len(home.entries("hermes")) == 3)
        path = home.path / "memories" / "MEMORY.md"
        stat = path.stat()
        path.write_text(path.read_text().replace("two", "six"))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        edit("marker", name="USER.md")
        agent.on_session_end([])
        eventually(lambda: "marker" in home.entries("hermes"))
        assert home.entries("hermes") == ["one", "two", "three", "marker"]

    def test_one_that_the_setting_leaves_alone_is_left_alone(
        self, home, edit, eventually
    ):
        home.configure(bulk_sync_on_init=False)
        agent = home.agent()
        add(agent, "from the tool")
        edit("by hand")
        agent.on_session_end([])
        add(agent, "marker")
        eventually(lambda: home.entries("hermes") == ["from the tool", "marker"])

    def test_a_note_with_the_hosts_delimiter_in_it_is_in_its_file(
        self, home, edit, eventually
    ):
        agent = home.agent(gateway_session_key="marketing")
        add(agent, "first half\n§\nsecond half")
        eventually(lambda: home.entries("marketing"))
        edit("first half\n§\nsecond half", "by hand")
        agent.on_session_end([])
        eventually(lambda: home.entries("hermes") == ["by hand"])
        assert retired(home, "marketing") == []


class TestManyThemesInOneFile:
    @pytest.fixture
    def speak(self, home, edit, eventually):
        """Return a function that has an agent note three things; "old" was there."""
        edit("old")

        def speak(key, *notes):
            agent = home.agent(gateway_session_key=key)
            theme = agent._session.speaker.theme
            eventually(lambda: home.entries("hermes") == ["old"])
            for note in notes:
                add(agent, note)
            eventually(lambda: len(home.entries(theme)) == len(notes))
            return agent, theme

        return speak

    def test_a_theme_loses_what_another_one_replaced(
        self, home, edit, eventually, speak
    ):
        speak("marketing", "tea at four", "likes jazz", "has a cat")
        sales = home.agent(gateway_session_key="sales")
        edit("old", "coffee at five", "likes jazz", "has a cat", "by hand")
        sales.on_memory_write(
            "replace", "memory", "coffee at five", {"old_text": "tea"}
        )
        eventually(lambda: home.entries("hermes") == ["old", "by hand"])
        assert home.entries("marketing") == ["likes jazz", "has a cat"]
        assert retired(home, "marketing") == ["tea at four"]
        assert home.entries("sales") == ["coffee at five"]

    def test_what_a_theme_wrote_comes_back_to_that_theme(
        self, home, edit, eventually, speak
    ):
        agent, _ = speak("marketing", "one", "two", "three")
        edit("old", "one", "three")
        agent.on_session_end([])
        eventually(lambda: retired(home, "marketing") == ["two"])
        edit("old", "one", "two", "three", "by hand")
        agent.on_session_end([])
        eventually(lambda: home.entries("hermes") == ["old", "by hand"])
        assert home.entries("marketing") == ["one", "two", "three"]

    def test_a_private_note_goes_and_comes_back_for_its_contact_alone(
        self, home, edit, eventually, speak
    ):
        secret = "Clara's party is on Friday"
        agent, bucket = speak(CONTACT, secret, "two", "three")
        edit("old", "two", "three", "by hand")
        agent.on_session_end([])
        eventually(lambda: home.entries("hermes") == ["old", "by hand"])
        assert retired(home, bucket) == [secret]
        edit("old", "two", "three", "by hand", secret, "marker")
        agent.on_session_end([])
        eventually(lambda: home.entries("hermes") == ["old", "by hand", "marker"])
        assert retired(home, bucket) == []

    @pytest.mark.parametrize("hook", ["sync_turn", "on_session_end"])
    @pytest.mark.parametrize("turns", [True, False])
    def test_a_private_note_that_waited_for_approval_is_not_imported(
        self, home, edit, eventually, hook, turns
    ):
        home.configure(sync_turns=turns)
        chat = home.agent(gateway_session_key=CONTACT)
        operations = [{"action": "add", "content": " two "}, {"action": "remove"}]
        messages = [
            "not a message",
            {"role": "assistant", "content": "", "tool_calls": None},
            calling("memory", {"action": "add", "content": "one"}),
            calling("memory", {"operations": operations}),
            calling("memory", "cut off"),
            calling("write_file", {"content": "three"}),
        ]
        if hook == "sync_turn":
            chat.sync_turn("Note it, please.", "Staged.", messages=messages)
        else:
            chat.on_session_end(messages)
        edit("one", "two", "three")
        home.agent("s2")
        eventually(lambda: home.entries("hermes") == ["three"])


class TestManyHomes:
    @pytest.fixture
    def other(self, home, tmp_path):
        other = type(home)(tmp_path / "other", home.dsn)
        yield other
        for provider in other.providers:
            provider.shutdown()

    def test_an_entry_lives_as_long_as_one_home_has_it(
        self, home, other, edit, eventually
    ):
        edit("one", "shared", "three")
        edit_in(other, "one of the other", "shared")
        here = home.agent()
        eventually(lambda: "shared" in home.entries("hermes"))
        there = other.agent()
        eventually(lambda: "one of the other" in home.entries("hermes"))
        edit("one", "three", "four")
        here.on_session_end([])
        eventually(lambda: "four" in home.entries("hermes"))
        assert retired(home, "hermes") == []
        edit_in(other, "one of the other", "five")
        there.on_session_end([])
        eventually(lambda: "five" in home.entries("hermes"))
        assert retired(home, "hermes") == ["shared"]

    def test_a_copy_of_a_home_is_another_home(
        self, home, edit, eventually, tmp_path, caplog
    ):
        edit("one", "shared", "three")
        marketing = home.agent(gateway_session_key="marketing")
        eventually(lambda: len(home.entries("hermes")) == 3)
        add(marketing, "of marketing")
        eventually(lambda: home.entries("marketing"))
        marketing.shutdown()
        engines.close_all()
        copy = type(home)(tmp_path / "copy", home.dsn)
        shutil.copytree(home.path, copy.path, dirs_exist_ok=True)
        edit_in(copy, "one", "three", "of marketing", "of the copy")
        home.providers.append(copy.agent())
        eventually(lambda: "of the copy" in home.entries("hermes"))
        assert retired(home, "hermes") == []
        # What the original's themes wrote is not taken for the copy's own.
        assert "of marketing" not in home.entries("hermes")
        assert warnings(caplog) == []

    def test_a_moved_home_takes_the_place_of_the_old_one_when_told(
        self, home, edit, eventually, tmp_path, capsys
    ):
        edit("one", "two", "before", "three")
        home.agent()
        eventually(lambda: len(home.entries("hermes")) == 4)
        engines.close_all()
        moved = type(home)(tmp_path / "moved", home.dsn)
        shutil.copytree(home.path, moved.path, dirs_exist_ok=True)
        edit_in(moved, "one", "two", "three")
        agent = moved.agent()
        home.providers.append(agent)
        both = "SELECT FROM memory_entries WHERE cardinality(files) = 2"
        eventually(lambda: len(home.rows(both)) == 3)
        edit_in(moved, "one", "three", "four")
        agent.on_session_end([])
        eventually(lambda: "four" in home.entries("hermes"))

        def reconcile(*words):
            capsys.readouterr()
            words = ("reconcile", *words, "--json", "--home", str(moved.path))
            assert cli.main([*words]) == 0
            said = capsys.readouterr()
            return json.loads(said.out)["retired"], said.err

        retires, told = reconcile("--execute")
        assert (retires, "--replaces-ancestors" in told) == (0, True)
        assert retired(home, "hermes") == []
        assert reconcile("--replaces-ancestors")[0] == 2
        assert reconcile("--replaces-ancestors", "--execute") == (2, "")
        assert retired(home, "hermes") == ["two", "before"]
        # And from now on without being told.
        edit_in(moved, "one", "four")
        agent.on_session_end([])
        eventually(lambda: "three" in retired(home, "hermes"))


class TestASuddenLoss:
    @pytest.fixture
    def agent(self, home, edit, eventually):
        edit("one", "two", "three", "four")
        agent = home.agent()
        eventually(lambda: len(home.entries("hermes")) == 4)
        return agent

    @pytest.fixture
    def run(self, home, capsys):
        def run(*words):
            capsys.readouterr()
            status = cli.main([*words, "--home", str(home.path), "--json"])
            return status, json.loads(capsys.readouterr().out)

        return run

    def lose(self, home, edit, agent, how):
        path = home.path / "memories" / "MEMORY.md"
        match how:
            case "most":
                edit("one")
            case "all":
                edit()
            case "the file":
                path.unlink()
        agent.on_session_end([])

    @pytest.mark.parametrize("how", ["most", "all", "the file"])
    def test_retires_nothing_and_says_once_what_to_do(
        self, home, edit, agent, eventually, caplog, how
    ):
        self.lose(home, edit, agent, how)
        eventually(lambda: warnings(caplog))
        agent.shutdown()
        engines.close_all()
        again = home.agent("s2")
        edit("marker", name="USER.md")
        again.on_session_end([])
        eventually(lambda: "marker" in home.entries("hermes"))
        assert home.entries("hermes") == ["one", "two", "three", "four", "marker"]
        (line,) = warnings(caplog)
        assert "reconcile --execute" in line
        assert "\n" not in line

    def test_is_forgotten_when_the_entries_are_back(
        self, home, edit, agent, eventually, caplog
    ):
        self.lose(home, edit, agent, "all")
        eventually(lambda: warnings(caplog))
        edit("one", "two", "three", "four", "marker")
        agent.on_session_end([])
        eventually(lambda: "marker" in home.entries("hermes"))
        edit("one", "three", "four", "marker", "last")
        agent.on_session_end([])
        eventually(lambda: "last" in home.entries("hermes"))
        assert retired(home, "hermes") == ["two"]

    def test_goes_on_being_doubted_while_the_file_grows(
        self, home, edit, agent, eventually
    ):
        edit("a", "b", "c", "d", "e", "f")
        agent.on_session_end([])
        eventually(lambda: "f" in home.entries("hermes"))
        edit("a", "b", "c", "d", "e", "g")
        agent.on_session_end([])
        eventually(lambda: "g" in home.entries("hermes"))
        assert retired(home, "hermes") == ["f"]

    @pytest.mark.parametrize("how", ["most", "all", "the file"])
    def test_is_confirmed_by_the_command(
        self, home, edit, agent, eventually, caplog, run, how
    ):
        self.lose(home, edit, agent, how)
        eventually(lambda: warnings(caplog))
        lost = 3 if how == "most" else 4
        status, said = run("reconcile")
        assert (status, said["executed"], said["retired"]) == (0, False, lost)
        assert retired(home, "hermes") == []
        status, said = run("reconcile", "--execute")
        assert (status, said["retired"]) == (0, lost)
        assert len(retired(home, "hermes")) == lost
        assert run("reconcile", "--execute")[1]["retired"] == 0
        (theme,) = run("stats")[1]["themes"]
        assert (theme["entries"], theme["retired"]) == (4 - lost, lost)

    def test_entries_that_cannot_be_read_are_not_gone(
        self, home, edit, agent, eventually, caplog
    ):
        path = home.path / "memories" / "MEMORY.md"
        text = "one\n§\ntw\udcff\n§\nthree\n§\nfour\n§\nmarker"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        os.utime(path, (LONG_AGO + 9, LONG_AGO + 9))
        agent.on_session_end([])
        eventually(lambda: "marker" in home.entries("hermes"))
        assert retired(home, "hermes") == []
        assert "MEMORY.md holds 1 entries that are not UTF-8; they were left out" in (
            warnings(caplog)
        )

    def test_a_file_that_cannot_be_read_retires_nothing_and_is_named_once(
        self, home, edit, agent, eventually, caplog
    ):
        path = home.path / "memories" / "MEMORY.md"
        path.unlink()
        path.mkdir()
        for number in range(3):
            edit(f"marker {number}", name="USER.md")
            agent.on_session_end([])
            eventually(lambda n=number: f"marker {n}" in home.entries("hermes"))
        assert {"one", "two", "three", "four"} <= set(home.entries("hermes"))
        (line,) = warnings(caplog)
        assert line.startswith("MEMORY.md cannot be read")


class TestRaces:
    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch):
        monkeypatch.setattr(housekeeping, "ADOPT_EVERY_S", 0.05)
        monkeypatch.setattr(memory_files, "SETTLE_S", 0.05)

    def test_an_add_that_waits_in_another_process_is_not_imported_before_it(
        self, home, edit, eventually
    ):
        edit("of marketing", "by hand")
        with another_process(home, entry_of(home, "of marketing")):
            agent = home.agent()
            add(agent, "marker")
            eventually(lambda: home.entries("hermes"))
            assert agent._engine.writer.flush(timeout_s=5)
            assert home.entries("hermes") == ["marker"]
        # The process is dead now, and ours takes its journal over.
        eventually(lambda: "by hand" in home.entries("hermes"))
        assert home.entries("marketing") == ["of marketing"]
        assert "of marketing" not in home.entries("hermes")

    def test_an_add_whose_entry_was_removed_meanwhile_ends_up_retired(
        self, home, edit, eventually
    ):
        edit("by hand")
        with another_process(home, entry_of(home, "removed again")):
            home.agent()
        eventually(lambda: retired(home, "marketing") == ["removed again"])
        assert home.entries("marketing") == []

    def test_an_outage_only_delays(self, home, edit, eventually, outage):
        edit("one", "two", "three")
        agent = home.agent(gateway_session_key="marketing")
        eventually(lambda: len(home.entries("hermes")) == 3)
        outage.begin()
        add(agent, "of marketing")
        edit("one", "three", "of marketing", "by hand")
        agent.on_session_end([])
        eventually(lambda: agent._engine.writer.outage)
        outage.end()
        eventually(lambda: home.entries("hermes") == ["one", "three", "by hand"])
        assert retired(home, "hermes") == ["two"]
        assert home.entries("marketing") == ["of marketing"]

    def test_a_file_that_has_just_changed_is_left_until_the_hook_has_spoken(
        self, home, edit, eventually, monkeypatch
    ):
        monkeypatch.setattr(memory_files, "SETTLE_S", 600)
        path = home.path / "memories" / "MEMORY.md"
        path.write_text("of marketing")
        agent = home.agent(gateway_session_key="marketing")
        edit("settled", name="USER.md")
        agent.on_session_end([])
        eventually(lambda: home.entries("hermes") == ["settled"])
        add(agent, "of marketing")
        eventually(lambda: home.entries("marketing"))
        os.utime(path, (LONG_AGO, LONG_AGO))
        edit("settled", "marker", name="USER.md")
        agent.on_session_end([])
        eventually(lambda: "marker" in home.entries("hermes"))
        assert home.entries("hermes") == ["settled", "marker"]

    def test_a_clock_ahead_of_ours_holds_nothing_up(self, home, edit, eventually):
        edit("from the future")
        ahead = 4_000_000_000
        os.utime(home.path / "memories" / "MEMORY.md", (ahead, ahead))
        home.agent()
        eventually(lambda: home.entries("hermes") == ["from the future"])


class TestUnderTheLock:
    """What `Store.reconcile` promises when others write at the same moment."""

    @pytest.fixture
    def store(self, home):
        with closing(Store(home.dsn)) as store:
            yield store

    def reconcile(self, home, store, judge=None):
        paths = HomePaths(home.path)
        file = memory_files.read(paths, Target.MEMORY)
        path = paths.memories / "MEMORY.md"
        return store.reconcile(
            file.ids,
            judge=judge or partial(memory_files.compare, file),
            unchanged=lambda: memory_files.stamp_of(path) == file.stamp,
            at=file.changed_at,
            timeout_s=10,
        )

    def stored(self, home, edit, eventually):
        edit("one", "two", "three")
        agent = home.agent()
        eventually(lambda: len(home.entries("hermes")) == 3)
        agent.shutdown()
        engines.close_all()

    def test_a_write_that_came_first_is_not_judged_by_the_file_before_it(
        self, home, edit, eventually, store
    ):
        self.stored(home, edit, eventually)
        edit("one", "three")
        with (
            ThreadPoolExecutor(1) as pool,
            psycopg.connect(home.dsn) as writer,
        ):
            writer.execute(QUERIES["lock_theme"], {"theme": "hermes"})
            late = pool.submit(self.reconcile, home, store)
            eventually(
                lambda: home.rows("SELECT 1 FROM pg_locks WHERE NOT granted"),
            )
            edit("one", "three", "two")  # as the host does before it calls the hook
            writer.rollback()
            _, verdict = late.result(10)
        assert verdict is None
        assert home.entries("hermes") == ["one", "two", "three"]
        assert retired(home, "hermes") == []

    def test_two_processes_at_once_do_it_once(self, home, edit, eventually, store):
        self.stored(home, edit, eventually)
        edit("one", "three")
        both = threading.Barrier(2)
        arrived = threading.local()
        file = memory_files.read(HomePaths(home.path), Target.MEMORY)

        def judge(rows):
            if not hasattr(arrived, "once"):
                arrived.once = True
                both.wait(10)
            return memory_files.compare(file, rows)

        with ThreadPoolExecutor(2) as pool:
            futures = [
                pool.submit(self.reconcile, home, store, judge) for _ in range(2)
            ]
            gone = [len(future.result(10)[1].gone) for future in futures]
        assert sorted(gone) == [0, 1]
        assert home.entries("hermes") == ["one", "three"]
        assert home.rows("SELECT DISTINCT cardinality(files) FROM memory_entries") == [
            (1,)
        ]
