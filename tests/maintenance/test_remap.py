from __future__ import annotations

import re
from datetime import timedelta

import pytest
from maintenance_kit import START

from hermes_pgmemory.models import (
    AgentKind,
    RecordDelegation,
    SeeAgent,
    Subject,
    Target,
    Theme,
)
from hermes_pgmemory.store.queries import QUERIES

OLD, NEW = Theme("old"), Theme("new")
LATER = START + timedelta(days=1)
ANNA, BERT = Subject("a" * 32), Subject("b" * 32)
COUNTS = """
SELECT (SELECT count(*) FROM memory_entries), (SELECT count(*) FROM conversations),
       (SELECT count(*) FROM memory_agents), (SELECT count(*) FROM memory_agent_edges)
"""


def delegation(theme, task, *, at=START):
    return RecordDelegation(
        theme=theme, parent_session_id="p", child_session_id="c", task=task, at=at
    )


class TestEntries:
    def test_move_and_meet_their_doubles_in_one_row(self, memory, run):
        memory.apply(
            memory.entry("both", theme=OLD, at=START),
            memory.entry("only old", theme=OLD),
            memory.entry("both", theme=NEW, at=LATER),
            memory.entry("only new", theme=NEW),
            memory.entry("both", theme=OLD, target=Target.USER),
        )
        ran = run("remap", "old", "new", "--execute", "--json")
        assert ran.status == 0, ran.err
        entries = ran.data["tables"]["memory_entries"]
        assert entries == {"affected": 3, "dropped_dupes": 1}
        assert memory.contents("old") == []
        assert memory.contents("new") == ["both", "both", "only new", "only old"]
        [kept] = memory.query(
            "SELECT created_at FROM memory_entries"
            " WHERE content = 'both' AND target = 'memory'"
        )
        assert kept == START

    def test_of_two_contacts_stay_apart(self, memory, run):
        memory.apply(
            memory.entry("same", theme=OLD, subject=ANNA),
            memory.entry("same", theme=NEW, subject=BERT),
            memory.entry("same", theme=NEW),
        )
        run("remap", "old", "new", "--execute")
        subjects = memory.query("SELECT subject FROM memory_entries ORDER BY subject")
        assert subjects == [ANNA, BERT, None]

    def test_no_vector_is_lost(self, memory, run):
        memory.apply(
            memory.entry("x", theme=OLD),
            memory.turn("x", theme=OLD),
            vectors={0: [1, 0, 0], 1: [1, 0, 0]},
        )
        memory.apply(memory.entry("x", theme=NEW), memory.turn("x", theme=NEW))
        run("remap", "old", "new", "--execute")
        for table in ("memory_entries", "conversations"):
            rows = f"SELECT embedding::text, model_id FROM {table}"
            assert memory.query(rows) == [("[1,0,0]", 1)]

    def test_what_one_of_both_still_holds_is_not_retired(self, memory, run):
        memory.apply(memory.entry("x", theme=OLD, source="f1", at=LATER))
        memory.apply(memory.entry("x", theme=NEW, source="f2"))
        memory.query(
            "UPDATE memory_entries SET retired_at = now() WHERE agent_identity = 'new'"
        )
        run("remap", "old", "new", "--execute")
        rows = memory.query(
            "SELECT source, retired_at, created_at, updated_at FROM memory_entries"
        )
        assert rows == [("f1", None, START, LATER)]

    def test_what_was_merged_belongs_to_both_rows_files(self, memory, run):
        memory.apply(memory.entry("x", theme=OLD, source="f1"))
        memory.apply(memory.entry("x", theme=OLD, source="f2"))
        memory.apply(memory.entry("x", theme=NEW, source="f2"))
        memory.apply(memory.entry("x", theme=NEW, source="f3"))
        memory.query(
            "UPDATE memory_entries SET missing_from ="
            " CASE agent_identity WHEN 'old' THEN ARRAY['f2'] ELSE ARRAY['f3'] END"
        )
        run("remap", "old", "new", "--execute")
        ((files, missing),) = memory.query(
            "SELECT files, missing_from FROM memory_entries"
        )
        assert (sorted(files), missing) == (["f1", "f2", "f3"], ["f3"])


class TestTurns:
    def test_move_and_one_told_under_both_names_is_one(self, memory, run):
        memory.apply(
            memory.turn("hello", theme=OLD, at=START),
            memory.turn("hello", theme=OLD, at=LATER, ordinal=2),
            memory.turn("hello", theme=NEW, at=LATER),
            memory.turn("hello", theme=OLD, session_id="s2"),
        )
        ran = run("remap", "old", "new", "--execute", "--json")
        turns = ran.data["tables"]["conversations"]
        assert turns == {"affected": 3, "dropped_dupes": 1}
        rows = memory.query("SELECT session_id, ts FROM conversations ORDER BY 1, 2")
        assert rows == [("s1", START), ("s1", LATER), ("s2", START)]


@pytest.mark.parametrize(
    ("table", "query"),
    [("conversations", "remap_turns"), ("memory_agent_edges", "remap_edges")],
)
def test_no_column_is_left_behind(memory, table, query):
    columns = memory.query(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s",
        table,
    )
    listed = QUERIES[query].partition("INSERT INTO")[2].partition("OVERRIDING")[0]
    assert set(columns) == set(re.findall(r"\w+", listed.partition("(")[2]))


class TestProvenance:
    def test_registry_lines_become_one(self, memory, run):
        memory.apply(
            SeeAgent(theme=OLD, kind=AgentKind.WORKER, at=START),
            SeeAgent(theme=NEW, kind=AgentKind.THEME, at=LATER),
        )
        ran = run("remap", "old", "new", "--execute", "--json")
        agents = ran.data["tables"]["memory_agents"]
        assert agents == {"affected": 1, "dropped_dupes": 1}
        rows = memory.query(
            "SELECT agent_identity, kind, first_seen, last_seen FROM memory_agents"
        )
        assert rows == [("new", "theme", START, LATER)]

    def test_an_unknown_theme_is_registered_as_what_it_is(self, memory, run):
        memory.apply(SeeAgent(theme=OLD, kind=AgentKind.THEME, at=START))
        run("remap", "old", "agent-7", "--execute")
        rows = memory.query("SELECT agent_identity, kind FROM memory_agents")
        assert rows == [("agent-7", "worker")]

    def test_delegations_follow_on_both_ends(self, memory, run):
        memory.apply(
            delegation(OLD, "both"),
            delegation(NEW, "both"),
            delegation(OLD, "mine"),
            delegation(Theme("boss"), "yours"),
        )
        memory.query(
            "UPDATE memory_agent_edges SET child_identity = 'old'"
            " WHERE task IN ('yours', 'mine')"
        )
        ran = run("remap", "old", "new", "--execute", "--json")
        edges = ran.data["tables"]["memory_agent_edges"]
        assert edges == {"affected": 3, "dropped_dupes": 1}
        rows = memory.query(
            "SELECT parent_identity, child_identity, task FROM memory_agent_edges"
            " ORDER BY task"
        )
        assert rows == [
            ("new", None, "both"),
            ("new", "new", "mine"),
            ("boss", "new", "yours"),
        ]


class TestRehearsal:
    def test_it_tells_exactly_what_would_happen(self, memory, run):
        memory.apply(
            *(memory.entry(f"{n}", theme=OLD) for n in range(700)),
            *(memory.entry(f"{n}", theme=NEW) for n in range(0, 700, 2)),
            *(memory.turn(f"{n}", theme=OLD) for n in range(700)),
            *(memory.turn(f"{n}", theme=NEW) for n in range(0, 700, 7)),
            SeeAgent(theme=OLD, kind=AgentKind.THEME, at=START),
            delegation(OLD, "task"),
        )
        before = memory.query(COUNTS)
        rehearsed = run("remap", "old", "new", "--json").data
        assert memory.query(COUNTS) == before
        assert len(memory.contents("old")) == 700
        assert memory.log() == []
        executed = run("remap", "old", "new", "--execute", "--json").data
        assert rehearsed.pop("executed") is False
        assert executed.pop("executed") is True
        assert rehearsed == executed
        assert executed["dropped_dupes"] == 350 + 100
        assert memory.log() == [
            ("remap", "memory_entries", "old -> new", 700, 350),
            ("remap", "conversations", "old -> new", 700, 100),
            ("remap", "memory_agents", "old -> new", 1, 0),
            ("remap", "memory_agent_edges", "old -> new", 1, 0),
        ]
        assert run("remap", "old", "new", "--json").data["affected"] == 0


class TestJournals:
    def test_a_replay_does_not_bring_the_old_theme_back(self, memory, run):
        journal = memory.accept(
            memory.entry("e", theme=OLD), memory.turn("t", theme=OLD)
        )
        memory.store.apply(journal, {}, timeout_s=10)
        run("remap", "old", "new", "--execute")
        assert memory.store.apply(journal, {}, timeout_s=10) == 0
        assert (memory.contents("old"), memory.turns("old")) == ([], [])

    def test_what_waits_for_the_new_theme_is_not_skipped(self, memory, run):
        first, second = memory.accept(
            memory.entry("new's", theme=NEW), memory.entry("old's", theme=OLD)
        )
        memory.store.apply([second], {}, timeout_s=10)
        run("remap", "old", "new", "--execute")
        assert memory.store.apply([first], {}, timeout_s=10) == 1
        assert memory.contents("new") == ["new's", "old's"]


class TestNames:
    def test_the_new_one_becomes_what_an_agent_of_that_name_is(self, memory, run):
        memory.apply(memory.entry("x", theme=Theme("Odd Name")))
        ran = run("remap", "Odd Name", "  SALES ", "--execute", "--json")
        assert ran.data["new"] == "sales"
        assert memory.contents("sales") == ["x"]

    @pytest.mark.parametrize("bucket", ["whatsapp-dm", "external-group", "_bench"])
    def test_a_bucket_of_contacts_is_not_emptied_by_mistake(self, memory, run, bucket):
        memory.apply(memory.entry("private", theme=Theme(bucket), subject=ANNA))
        ran = run("remap", bucket, "sales", "--execute")
        assert ran.status == 2
        assert "--force" in ran.err
        assert memory.contents(bucket) == ["private"]
        assert run("remap", bucket, "sales", "--execute", "--force").status == 0
        assert memory.query("SELECT agent_identity, subject FROM memory_entries") == [
            ("sales", ANNA)
        ]

    @pytest.mark.parametrize(
        ("old", "new"), [("sales", "Sales"), ("sales", " "), ("", "sales")]
    )
    def test_senseless_pairs_are_refused(self, run, old, new):
        assert run("remap", old, new).status == 2

    def test_no_rows_go_where_no_agent_may_be(self, run, configure, dsn):
        configure(dsn=dsn, allowed_themes=["sales"])
        ran = run("remap", "old", "elsewhere")
        assert ran.status == 2
        assert "allowed_themes" in ran.err

    def test_a_contacts_key_is_not_written_anywhere(self, memory, run):
        key = "agent:main:whatsapp:dm:15550100123"
        memory.apply(memory.entry("x", theme=Theme(key)))
        ran = run("remap", key, key, "--execute", "--json")
        assert ran.status == 0, ran.err
        assert ran.data["new"] == "whatsapp-dm"
        assert "no contact" in ran.err
        assert memory.contents("whatsapp-dm") == ["x"]
        assert "15550100123" not in ran.out + ran.err + str(memory.log())


class TestBesideWriters:
    def test_nothing_is_lost_and_nothing_doubled(self, memory, run):
        memory.apply(
            *(memory.entry(f"old {n}", theme=OLD) for n in range(500)),
            *(memory.turn(f"old {n}", theme=OLD) for n in range(2000)),
        )
        with memory.busy("old") as olds, memory.busy("new") as news:
            ran = run("remap", "old", "new", "--execute")
        assert ran.status == 0, ran.err
        assert run("remap", "old", "new", "--execute").status == 0
        assert (memory.contents("old"), memory.turns("old")) == ([], [])
        entries = {*olds, *news, *(f"old {n}" for n in range(500))}
        assert memory.contents("new") == sorted(entries)
        turns = {*olds, *news, *(f"old {n}" for n in range(2000))}
        assert memory.turns("new") == sorted(turns)
