from __future__ import annotations

from datetime import timedelta

from maintenance_kit import START

from hermes_pgmemory.models import Role, Subject, Target, Theme

LATER = START + timedelta(microseconds=1)


class TestTurns:
    def test_one_turn_counted_as_two_is_one(self, memory, run):
        memory.apply(memory.turn("hi"), memory.turn("hi", ordinal=2))
        ran = run("cleanup", "--execute", "--json")
        assert ran.data["tables"]["conversations"] == {
            "affected": 1,
            "dropped_dupes": 1,
        }
        assert memory.turns() == ["hi"]

    def test_what_differs_in_anything_stays(self, memory, run):
        memory.apply(
            memory.turn("hi"),
            memory.turn("hi", ordinal=2, at=LATER),
            memory.turn("hi", session_id="s2"),
            memory.turn("hi", role=Role.ASSISTANT),
            memory.turn("hi", subject=Subject("a" * 32)),
            memory.turn("hi", theme=Theme("home")),
            memory.turn("hi "),
        )
        assert run("cleanup", "--execute", "--json").data["affected"] == 0
        assert len(memory.query("SELECT id FROM conversations")) == 7

    def test_the_one_with_a_vector_stays(self, memory, run):
        twins = [memory.turn("hi", ordinal=n) for n in (1, 2, 3)]
        memory.apply(*twins, vectors={1: [1, 0, 0]})
        run("cleanup", "--execute")
        rows = memory.query("SELECT embedding::text FROM conversations")
        assert rows == ["[1,0,0]"]

    def test_blank_ones_go(self, memory, run):
        memory.apply(memory.turn(" \n\t"), memory.turn(""), memory.turn("x"))
        ran = run("cleanup", "--execute", "--json")
        assert ran.data["tables"]["conversations"] == {
            "affected": 2,
            "dropped_dupes": 0,
        }
        assert memory.turns() == ["x"]


class TestEntries:
    def test_what_stays_knows_the_files_of_what_goes(self, memory, run):
        memory.apply(
            memory.entry("likes tea", source="f1"),
            memory.entry("likes tea", source="f2"),
            memory.entry("likes tea ", source="f2"),
            memory.entry(" likes tea", source="f3"),
            memory.entry(" likes tea", source="f4"),
            vectors={2: [1, 0, 0]},
        )
        memory.query("UPDATE memory_entries SET missing_from = '{f2}' WHERE id = 1")
        memory.query("UPDATE memory_entries SET missing_from = '{f4}' WHERE id > 2")
        run("cleanup", "--execute")
        [row] = memory.query(
            "SELECT content, files, missing_from, embedding::text FROM memory_entries"
        )
        files = ["f1", "f2", "f3", "f4"]
        assert (row[0], sorted(row[1]), *row[2:]) == (
            "likes tea",
            files,
            ["f4"],
            "[1,0,0]",
        )

    def test_white_space_makes_no_other_entry(self, memory, run):
        memory.apply(
            memory.entry(" likes  tea\n", at=START),
            memory.entry("likes tea", at=LATER),
            memory.entry("likes tea", target=Target.USER),
            memory.entry("likes tea", subject=Subject("a" * 32)),
            memory.entry("likestea"),
        )
        ran = run("cleanup", "--execute", "--json")
        assert ran.data["tables"]["memory_entries"] == {
            "affected": 1,
            "dropped_dupes": 1,
        }
        assert memory.contents() == ["likes tea", "likes tea", "likes tea", "likestea"]
        [age] = memory.query(
            "SELECT created_at FROM memory_entries WHERE target = 'memory'"
            " AND subject IS NULL AND content = 'likes tea'"
        )
        assert age == START

    def test_a_live_one_stays_before_a_retired_one(self, memory, run):
        memory.apply(memory.entry("tea"), memory.entry("tea "))
        memory.query("UPDATE memory_entries SET retired_at = now() WHERE content='tea'")
        run("cleanup", "--execute")
        assert memory.contents() == ["tea "]

    def test_blank_ones_go(self, memory, run):
        memory.apply(memory.entry("\n"), memory.entry(" "), memory.entry("x"))
        assert run("cleanup", "--execute", "--json").data["affected"] == 2
        assert memory.contents() == ["x"]


def test_positions_of_journals_that_are_long_gone_are_forgotten(memory, run):
    memory.apply(memory.entry("a"), memory.entry("b", theme=Theme("home")))
    positions = "SELECT agent_identity FROM memory_journal_positions ORDER BY 1"
    assert run("cleanup", "--execute", "--json").data["affected"] == 0
    memory.query(
        "UPDATE memory_journal_positions SET updated_at = now() - '366d'::interval"
    )
    for words in ((), ("--theme", "home"), ("--theme", "home", "--execute")):
        count = run("cleanup", *words, "--json").data["affected"]
        assert count == (1 if words else 2)
    assert memory.query(positions) == ["work"]


def test_a_rehearsal_tells_the_exact_number_and_changes_nothing(memory, run):
    memory.apply(
        *(memory.turn(f"{n % 300}", ordinal=n + 1) for n in range(1500)),
        *(memory.entry(f"{n}{' ' * (n % 2)}") for n in range(20)),
        memory.entry("1"),
    )
    rehearsed = run("cleanup", "--json").data
    assert (rehearsed["affected"], rehearsed["executed"]) == (1201, False)
    assert len(memory.turns()) == 1500
    assert memory.log() == []
    executed = run("cleanup", "--execute", "--json").data
    assert (executed["affected"], executed["executed"]) == (1201, True)
    assert memory.log() == [
        ("cleanup", "memory_entries", None, 1, 1),
        ("cleanup", "conversations", None, 1200, 1200),
        ("cleanup", "memory_journal_positions", None, 0, 0),
    ]
    assert len(memory.turns()) == 300
    assert run("cleanup", "--json").data["affected"] == 0


def test_what_lost_its_stand_in_meanwhile_is_spared(memory, store):
    maintenance = store.maintenance
    memory.apply(memory.entry("tea"), memory.entry("tea "))
    memory.apply(memory.turn("hi"), memory.turn("hi", ordinal=2))
    found = {
        table: maintenance.untidy(table, theme="work", timeout_s=10)
        for table in ("entries", "turns")
    }
    memory.query("DELETE FROM memory_entries WHERE content = 'tea'")
    memory.query("DELETE FROM conversations WHERE id = %s", found["turns"][0].kept)
    for table, rows in found.items():
        assert len(rows) == 1
        done = maintenance.tidy(table, "work", rows, run=None, timeout_s=10)
        assert done.affected == 0


def test_only_the_theme_that_is_named(memory, run):
    memory.apply(memory.entry(" "), memory.entry(" ", theme=Theme("home")))
    run("cleanup", "--theme", "home", "--execute")
    assert (memory.contents(), memory.contents("home")) == ([" "], [])
    assert {pattern for _, _, pattern, _, _ in memory.log()} == {"home"}
