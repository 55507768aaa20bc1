"""What replaced what, when and by whom; and how long that is known."""

from __future__ import annotations

from datetime import timedelta

import pytest
from maintenance_kit import START, days_ago

from hermes_pgmemory.models import RemoveEntry, ReplaceEntry, Subject, Target, Theme

ANNA = Subject("a" * 32)
HOURS = [f"The shop is open from {hour} to 18 o'clock" for hour in (8, 9, 10)]


def at(hours):
    return START + timedelta(hours=hours)


def replace(old, new, when, **more):
    given = {"theme": Theme("work"), "target": Target.MEMORY} | more
    return ReplaceEntry(old_text=old, content=new, at=when, **given)


def remove(old, when, **more):
    given = {"theme": Theme("work"), "target": Target.MEMORY} | more
    return RemoveEntry(old_text=old, at=when, **given)


@pytest.fixture
def changed(memory):
    """A shop changes its hours twice and closes, among things that do not change."""
    memory.apply(
        memory.entry(HOURS[0]),
        memory.entry("The shop sells tea"),
        memory.entry("Anna is ill", subject=ANNA),
        replace("from 8", HOURS[1], at(1), metadata={"platform": "cli"}),
        replace("sells tea", "The shop sells tea", at(2)),
        replace("from 9", HOURS[2], at(3)),
        remove("from 10", at(4), metadata={"write_origin": "review"}),
        remove("no such thing", at(5)),
        replace("Anna is", "Anna is well", at(6), subject=ANNA),
    )


@pytest.mark.usefixtures("changed")
class TestWhatIsKept:
    def test_every_change_with_what_took_its_place(self, run):
        changes = run("history", "--theme", "work", "--json").data["changes"]
        assert [(one["change"], one["before"], one["after"]) for one in changes] == [
            ("removed", HOURS[2], None),
            ("replaced", HOURS[1], HOURS[2]),
            ("replaced", HOURS[0], HOURS[1]),
        ]
        assert [one["from"] for one in changes] == [
            {"write_origin": "review"},
            {},
            {"platform": "cli"},
        ]
        assert changes[1]["since"] == at(1).isoformat()
        assert changes[1]["at"] == at(3).isoformat()
        shown = run("history", "--theme", "work").out
        assert HOURS[0] in shown
        # A contact's is shown to who names the contact.
        assert "Anna" not in shown

        def told(*words):
            ran = run("history", "--theme", "work", "--json", *words)
            return [one["before"] for one in ran.data["changes"]]

        assert told("--match", "FROM 9") == [HOURS[1]]
        assert told("--limit", "1") == [HOURS[2]]
        assert told("--match", "100% of nothing") == []
        assert told("--subject", ANNA) == ["Anna is ill"]
        assert run("history", "--theme", "work", "--limit", "0").status == 2

    def test_it_moves_with_its_theme(self, memory, run):
        assert run("remap", "work", "home", "--execute").status == 0
        changes = run("history", "--theme", "home", "--json").data["changes"]
        assert [one["after"] for one in changes] == [None, HOURS[2], HOURS[1]]
        assert run("history", "--theme", "work").status == 2
        nothing = run("history", "--theme", "home", "--match", "no such thing")
        assert nothing.out == "nothing was changed\n"


def test_an_entry_that_meets_its_double_is_replaced_by_it_once(memory, store, run):
    batch = memory.accept(
        memory.entry("a"), memory.entry("b"), replace("a", "b", at(1))
    )
    for _ in range(2):  # as a journal is replayed
        store.apply(batch, {})
    [change] = run("history", "--theme", "work", "--json").data["changes"]
    assert (change["before"], change["after"]) == ("a", "b")


class TestRetention:
    @pytest.mark.parametrize(("words", "left"), [((), 1), (("--history-days", "9"), 0)])
    def test_prune_ends_it_by_the_setting_or_the_option(self, memory, run, words, left):
        memory.apply(
            memory.entry("a"), memory.entry("c"), memory.turn("new", at=days_ago(1))
        )
        memory.apply(replace("a", "b", days_ago(366)), replace("c", "d", days_ago(10)))
        rehearsed = run("prune", "--days", "9", *words, "--json").data
        assert rehearsed["tables"]["memory_entry_history"]["affected"] == 2 - left
        assert run("prune", "--days", "9", *words, "--execute").status == 0
        assert memory.query("SELECT count(*) FROM memory_entry_history") == [left]
        assert memory.contents() == ["b", "d"]

    def test_even_of_a_theme_of_which_nothing_else_is_left(self, memory, run):
        memory.apply(memory.entry("a"), remove("a", days_ago(20)))
        assert run("prune", "--history-days", "10", "--execute").status == 0
        assert memory.query("SELECT count(*) FROM memory_entry_history") == [0]
