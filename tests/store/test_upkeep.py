from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hermes_pgmemory.errors import DimensionMismatch, UnstorableWrite
from hermes_pgmemory.models import AgentKind, SeeAgent, Theme, ThemeCount
from hermes_pgmemory.store import Table, Unembedded

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def waiting(memory, table, **more):
    rows = memory.store.unembedded(table, **({"limit": 10, "timeout_s": 10} | more))
    return [row.content for row in rows]


class TestUnembedded:
    def test_lists_what_waits_for_a_vector(self, memory):
        memory.apply(memory.add("a"), memory.add("b"), vectors={0: [1, 0, 0]})
        memory.apply(memory.turn("c"), memory.turn("d"), vectors={0: [1, 0, 0]})
        assert waiting(memory, Table.ENTRIES) == ["b"]
        assert waiting(memory, Table.TURNS) == ["d"]

    def test_leaves_out_what_needs_none(self, memory):
        memory.apply(memory.add("retired"), memory.turn("quiet", embed=False))
        memory.query("UPDATE memory_entries SET retired_at = now()")
        assert waiting(memory, Table.ENTRIES) == waiting(memory, Table.TURNS) == []

    def test_goes_on_after_rows_that_could_not_be_embedded(self, memory):
        memory.apply(*(memory.turn(f"{n}") for n in range(5)))
        rows = memory.store.unembedded(Table.TURNS, limit=2, timeout_s=10)
        assert [row.content for row in rows] == ["0", "1"]
        assert waiting(memory, Table.TURNS, after=rows[-1].id) == ["2", "3", "4"]


def test_a_store_that_was_told_no_model_writes_no_vectors(memory, store_on, dsn):
    nameless = store_on(dsn)
    batch = memory.accept(memory.add("tea"))
    row = Unembedded(id=1, theme=Theme("work"), content="tea")
    with pytest.raises(ValueError, match="told their model"):
        nameless.apply(batch, {0: [1, 0, 0]}, timeout_s=10)
    with pytest.raises(ValueError, match="told their model"):
        nameless.set_vectors(Table.ENTRIES, [(row, [1, 0, 0])], timeout_s=10)
    assert nameless.apply(batch, {}, timeout_s=10) == 1


class TestSetVectors:
    @pytest.mark.parametrize("table", Table)
    def test_makes_rows_findable_by_meaning(self, memory, table):
        memory.apply(memory.add("tea"), memory.turn("tea"))
        rows = memory.store.unembedded(table, limit=10, timeout_s=10)
        vectors = [(row, [1, 0, 0]) for row in rows]
        assert memory.store.set_vectors(table, vectors, timeout_s=10) == 1
        find = {"entries": memory.entries, "turns": memory.turns}[table]
        assert find("", vector=[1, 0, 0])[0].similarity == pytest.approx(1)
        assert memory.store.set_vectors(table, vectors, timeout_s=10) == 0

    def test_counts_the_rows_that_got_one(self, memory):
        memory.apply(*(memory.turn(f"{n}") for n in range(5)))
        rows = memory.store.unembedded(Table.TURNS, limit=10, timeout_s=10)
        gone = Unembedded(id=999, theme=Theme("work"), content="x")
        vectors = [(row, [1, 0, 0]) for row in [gone, *rows]]
        assert memory.store.set_vectors(Table.TURNS, vectors, timeout_s=10) == 5

    def test_spares_an_entry_that_was_replaced_meanwhile(self, memory):
        memory.apply(memory.add("tea"))
        rows = memory.store.unembedded(Table.ENTRIES, limit=10, timeout_s=10)
        memory.apply(memory.replace("tea", "coffee"))
        vectors = [(row, [1, 0, 0]) for row in rows]
        assert memory.store.set_vectors(Table.ENTRIES, vectors, timeout_s=10) == 0
        assert waiting(memory, Table.ENTRIES) == ["coffee"]

    def test_without_an_active_model_does_nothing(self, memory):
        memory.query("DELETE FROM memory_settings WHERE key = 'active_model_id'")
        memory.apply(memory.add("tea"), memory.turn("tea"), vectors={0: [1, 0, 0]})
        rows = memory.store.unembedded(Table.ENTRIES, limit=10, timeout_s=10)
        vectors = [(row, [1, 0, 0]) for row in rows]
        assert memory.store.set_vectors(Table.ENTRIES, vectors, timeout_s=10) == 0
        assert waiting(memory, Table.ENTRIES) == ["tea"]

    @pytest.mark.parametrize(
        ("vector", "error"),
        [([1, 0], DimensionMismatch), ([float("nan"), 0, 0], UnstorableWrite)],
    )
    def test_refuses_what_no_row_can_hold(self, memory, vector, error):
        memory.apply(memory.add("tea"))
        rows = memory.store.unembedded(Table.ENTRIES, limit=10, timeout_s=10)
        with pytest.raises(error):
            memory.store.set_vectors(Table.ENTRIES, [(rows[0], vector)], timeout_s=10)


def test_counts_tell_what_each_theme_holds(memory):
    memory.apply(
        memory.add("one"),
        memory.add("two"),
        memory.add("retired"),
        memory.turn("three"),
        memory.turn("quiet", embed=False),
        memory.turn("four", theme=Theme("unseen")),
        SeeAgent(theme=Theme("work"), kind=AgentKind.DM, at=NOON),
        SeeAgent(theme=Theme("silent"), kind=AgentKind.BENCH, at=NOON),
        vectors={0: [1, 0, 0], 3: [1, 0, 0]},
    )
    memory.query(
        "UPDATE memory_entries SET retired_at = now() WHERE content = 'retired'"
    )
    memory.query("UPDATE memory_agents SET kind = 'martian' WHERE kind = 'bench'")
    assert memory.store.counts(timeout_s=10) == [
        ThemeCount(
            theme=Theme("silent"),
            kind=None,
            entries=0,
            retired=0,
            turns=0,
            unembedded_entries=0,
            unembedded_turns=0,
            last_seen=NOON,
        ),
        ThemeCount(
            theme=Theme("unseen"),
            kind=None,
            entries=0,
            retired=0,
            turns=1,
            unembedded_entries=0,
            unembedded_turns=1,
            last_seen=None,
        ),
        ThemeCount(
            theme=Theme("work"),
            kind=AgentKind.DM,
            entries=2,
            retired=1,
            turns=2,
            unembedded_entries=1,
            unembedded_turns=0,
            last_seen=NOON,
        ),
    ]
