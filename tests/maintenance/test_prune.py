from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from maintenance_kit import START, days_ago

from hermes_pgmemory import maintenance
from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.maintenance.prune import Limits
from hermes_pgmemory.models import ReplaceEntry, Target, Theme

HOME = Theme("home")


def silent(rows, /):
    del rows


class TestWhatGoes:
    def test_old_turns_and_never_an_entry(self, memory, run):
        memory.apply(
            memory.entry("kept", at=days_ago(900)),
            memory.turn("old", at=days_ago(31)),
            memory.turn("new", at=days_ago(29)),
        )
        assert run("prune", "--days", "30", "--execute").status == 0
        assert memory.turns() == ["new"]
        assert memory.contents() == ["kept"]

    @pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/New_York"])
    def test_the_cutoff_is_one_instant_in_every_time_zone(
        self, memory, store, zone, monkeypatch
    ):
        monkeypatch.setenv("PGTZ", zone)
        before = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
        for number, offset in enumerate((-1, 0, 1)):
            at = before + timedelta(microseconds=offset)
            memory.apply(memory.turn(f"{offset}", at=at, session_id=f"{number}"))
            memory.apply(memory.entry(f"{offset}"), memory.entry(f"was {offset}"))
            memory.query(
                "UPDATE memory_entries SET retired_at = %s WHERE content = %s",
                at,
                f"{offset}",
            )
            memory.apply(
                ReplaceEntry(
                    theme=Theme("work"),
                    target=Target.MEMORY,
                    old_text=f"was {offset}",
                    content=f"is {offset}",
                    at=at,
                )
            )
        limits = Limits(
            turns_before=before, retired_before=before, history_before=before
        )
        maintenance.prune(
            store, limits=limits, theme=None, execute=True, advance=silent
        )
        assert memory.turns() == ["0", "1"]
        assert memory.contents() == ["0", "1", "is -1", "is 0", "is 1"]
        past = "SELECT content FROM memory_entry_history ORDER BY content"
        assert memory.query(past) == ["was 0", "was 1"]

    def test_days_are_24_hours_whatever_the_clock_on_the_wall_does(self):
        now = datetime.fromisoformat("2026-03-30T12:00:00+02:00")
        assert maintenance.cutoff(2, now) == datetime(2026, 3, 28, 10, tzinfo=UTC)

    def test_only_the_theme_that_is_named(self, memory, run):
        memory.apply(memory.turn("a"), memory.turn("b", theme=HOME))
        ran = run("prune", "--days", "1", "--theme", "home", "--execute", "--json")
        assert ran.data["affected"] == 1
        assert (memory.turns(), memory.turns("home")) == (["a"], [])

    def test_the_setting_says_how_old_where_the_command_does_not(
        self, memory, run, configure, dsn
    ):
        memory.apply(memory.turn("old", at=days_ago(8)), memory.turn("new"))
        memory.query(
            "UPDATE conversations SET ts = %s WHERE content = 'new'", days_ago(6)
        )
        configure(dsn=dsn, ttl_days=7)
        assert run("prune", "--execute", "--json").data["days"] == 7
        assert memory.turns() == ["new"]

    @pytest.mark.parametrize("days", [[], ["--days", "0"], ["--days", "1000000"]])
    def test_without_a_sensible_age_nothing_is_done(self, memory, run, days):
        memory.apply(memory.turn("old"))
        ran = run("prune", *days, "--execute")
        assert ran.status == 2
        assert "--days" in ran.err
        assert memory.turns() == ["old"]

    def test_a_negative_age_is_refused(self):
        with pytest.raises(BadRequest):
            maintenance.cutoff(-1, datetime.now(UTC))


class TestSize:
    def test_each_theme_keeps_its_newest_turns_even_of_one_instant(self, memory, run):
        at = [START, START, START, START + timedelta(1), START - timedelta(1)]
        memory.apply(*(memory.turn(f"{n}", at=when) for n, when in enumerate(at)))
        memory.apply(*(memory.turn(f"{n}", theme=HOME) for n in range(2)))
        memory.apply(memory.entry("kept", at=days_ago(900)))
        rehearsed = run("prune", "--max-rows", "2", "--json").data
        assert (rehearsed["affected"], rehearsed["executed"]) == (3, False)
        assert (
            run("prune", "--max-rows", "2", "--execute", "--json").data["affected"] == 3
        )
        assert (memory.turns(), memory.turns("home")) == (["2", "3"], ["0", "1"])
        assert memory.contents() == ["kept"]

    def test_with_an_age_goes_what_either_lets_go(self, memory, run):
        ages = (40, 30, 20, 10)
        memory.apply(*(memory.turn(f"{days}", at=days_ago(days)) for days in ages))
        words = ("--execute", "--json", "--theme", "work")
        ran = run("prune", "--days", "35", "--max-rows", "2", *words)
        assert ran.data["affected"] == 2
        ran = run("prune", "--days", "15", "--max-rows", "2", *words)
        assert ran.data["affected"] == 1
        assert memory.turns() == ["10"]

    def test_none_is_no_size(self, memory, run):
        memory.apply(memory.turn("old"))
        assert run("prune", "--max-rows", "0", "--execute").status == 2


def test_retired_entries_go_by_their_own_age_and_others_never(memory, run):
    memory.apply(*(memory.entry(text, at=days_ago(99)) for text in ("a", "b", "c")))
    for text, days in (("a", 31), ("b", 29)):
        memory.query(
            "UPDATE memory_entries SET retired_at = %s WHERE content = %s",
            days_ago(days),
            text,
        )
    ran = run("prune", "--retired-days", "30", "--execute", "--json")
    assert ran.data["tables"] == {"memory_entries": {"affected": 1, "dropped_dupes": 0}}
    assert memory.contents() == ["b", "c"]


class TestRehearsal:
    def test_it_tells_the_exact_number_and_changes_nothing(self, memory, run):
        memory.apply(*(memory.turn(f"{n}", ordinal=n + 1) for n in range(7)))
        before = memory.query("SELECT xmin::text, * FROM conversations")
        rehearsed = run("prune", "--days", "1", "--json").data
        assert (rehearsed["affected"], rehearsed["executed"]) == (7, False)
        assert len(memory.query("SELECT xmin::text, * FROM conversations")) == len(
            before
        )
        assert memory.log() == []
        executed = run("prune", "--days", "1", "--execute", "--json").data
        assert (executed["affected"], executed["executed"]) == (7, True)
        assert memory.log() == [("prune", "conversations", None, 7, 0)]

    def test_many_parts_add_up_even_where_turns_share_an_instant(
        self, memory, store, monkeypatch
    ):
        monkeypatch.setattr(maintenance.Pace, "took", lambda *_: None)
        monkeypatch.setattr(maintenance.Pace.__init__, "__defaults__", (2,))
        at = [START, START, START, START + timedelta(1), START - timedelta(1)]
        memory.apply(*(memory.turn(f"{n}", at=when) for n, when in enumerate(at)))
        for execute in (False, True):
            outcome = maintenance.prune(
                store,
                before=START + timedelta(days=1),
                theme=None,
                execute=execute,
                advance=silent,
            )
            assert outcome.affected == 4
        assert memory.turns() == ["3"]

    def test_people_are_told_how_to_do_it(self, memory, run):
        memory.apply(memory.turn("old"))
        assert "1 rows would be deleted; add --execute" in run("prune", "--days=1").out
        assert "1 rows deleted" in run("prune", "--days=1", "--execute").out


class TestBesideWriters:
    def test_new_turns_stay_and_writers_go_on(self, memory, run):
        old = [memory.turn(f"old {n}", at=days_ago(9)) for n in range(3000)]
        memory.apply(*old)
        with memory.busy() as written:
            ran = run("prune", "--days", "5", "--execute", "--json")
        assert ran.data["affected"] == 3000
        assert memory.turns() == sorted(written)


def test_parts_shrink_when_they_take_long_and_grow_when_they_do_not():
    pace = maintenance.Pace(1000)
    pace.took(2.0)
    assert pace.rows == 500
    pace.took(0.3)
    assert pace.rows == 500
    for _ in range(20):
        pace.took(0.01)
    assert pace.rows == maintenance.LARGEST_PART
    for _ in range(20):
        pace.took(9)
    assert pace.rows == maintenance.SMALLEST_PART
