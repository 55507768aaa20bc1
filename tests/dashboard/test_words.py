"""Numbers, times and charts, without a page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from hermes_pgmemory.dashboard import charts, words
from hermes_pgmemory.dashboard.watched import Watched
from hermes_pgmemory.errors import DatabaseUnavailable
from hermes_pgmemory.store.seen import Delegation, Hour

NOW = datetime(2026, 3, 5, 14, 30, tzinfo=UTC)


@dataclass
class Row:
    private: bool
    id: int = 0


@pytest.mark.parametrize(
    ("value", "told"),
    [(0, "0"), (999, "999"), (1000, "1k"), (12_340, "12.3k"), (4_100_000, "4.1M")],
)
def test_short_numbers(value, told):
    assert words.short(value) == told


@pytest.mark.parametrize(
    ("age", "told"),
    [
        (timedelta(0), "just now"),
        (timedelta(seconds=59), "59 s ago"),
        (timedelta(minutes=3), "3 min ago"),
        (timedelta(hours=30), "1 d ago"),
        (timedelta(days=800), "2 y ago"),
        (timedelta(minutes=-5), "in 5 min"),
    ],
)
def test_ages(age, told):
    assert f">{told}<" in words.ago(NOW - age, NOW)


def test_a_long_name_keeps_its_end():
    name = "agent:main:webhook:webhook:demo:delivery-17"
    assert words.cut(name, 20) == "agent:main:w…very-17"
    assert len(words.cut(name, 20)) == 20
    assert words.cut("short", 20) == "short"


class TestFolding:
    ROWS = (Row(True), Row(True), Row(False, 1), Row(True), Row(False, 2), Row(True))

    def test_hidden_rows_that_follow_each_other_are_one(self):
        folded = list(words.folded(self.ROWS, show_private=False))
        assert [(n, row and row.id) for n, row in folded] == [
            (2, None),
            (0, 1),
            (1, None),
            (0, 2),
            (1, None),
        ]

    def test_shown_rows_stay(self):
        folded = list(words.folded(self.ROWS, show_private=True))
        assert [row for _, row in folded] == list(self.ROWS)


class TestCharts:
    def test_bars_hold_every_row_of_their_time_and_no_other(self):
        def hour(ago, entries, turns):
            at = NOW.replace(minute=0) - timedelta(hours=ago)
            return Hour(theme=f"t{ago}", at=at, entries=entries, turns=turns)

        hours = [hour(0, 1, 2), hour(47, 3, 0), hour(48, 100, 100)]
        chart = charts.hourly(hours, until=NOW, count=48)
        assert chart.total == 6
        assert len(chart.bars) == 48
        assert [len(bar.blocks) for bar in chart.bars if bar.blocks] == [1, 2]
        assert "1 memories, 2 turns" in chart.bars[-1].title
        [turns, entries] = chart.bars[-1].blocks
        assert entries.y + entries.height == pytest.approx(turns.y)
        assert turns.y + turns.height == pytest.approx(charts.TALL)

    def test_a_quiet_time_is_an_empty_chart(self):
        assert charts.hourly([], until=NOW, count=48).total == 0

    @pytest.mark.parametrize("most", [0, 1, 5, 9, 10, 11, 99, 101, 950, 12_345])
    def test_an_axis_ends_above_what_it_shows(self, most):
        assert most <= charts.nice(most) <= max(4, 2 * most)

    def test_delegations_are_a_tree_and_a_circle_is_none(self):
        def edge(parent, child):
            return Delegation(
                parent="t",
                child=None,
                parent_session_id=parent,
                child_session_id=child,
                task="",
                private=False,
                at=NOW,
            )

        pairs = [("a", "b"), ("a", "c"), ("c", "d"), ("x", "y"), ("y", "x")]
        tree = charts.tree([edge(*pair) for pair in pairs])
        assert sorted(node.text for node in tree.nodes) == ["a", "b", "c", "d", "t"]
        assert len(tree.lines) == 4
        places = {node.text: (node.x, node.y) for node in tree.nodes}
        assert len(set(places.values())) == 5
        assert places["t"][0] < places["a"][0] < places["c"][0] < places["d"][0]


class TestWatched:
    def test_it_is_looked_up_once_for_all_who_ask(self):
        looks = []
        watched = Watched(lambda: looks.append(1) or len(looks), name="w")
        assert [watched.latest(patience_s=30).value for _ in range(3)] == [1, 1, 1]

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_fault_of_ours_does_not_end_all_looking(self):
        answers = iter([1])
        watched = Watched(lambda: 1 // next(answers, 0), name="w")
        assert watched.latest(patience_s=30).value == 1
        watched._due = 0
        watched.latest(patience_s=0)
        watched.close(timeout_s=30)
        assert watched.latest(patience_s=0).value == 1
        assert watched._thread is None

    def test_a_failure_keeps_the_last_answer_and_says_why(self):
        answers = iter([7])

        def look():
            try:
                return next(answers)
            except StopIteration:
                raise DatabaseUnavailable("down") from None

        watched = Watched(look, name="w")
        assert watched.latest(patience_s=30).problem is None
        watched._due = 0
        watched.latest(patience_s=0)
        watched.close(timeout_s=30)
        latest = watched.latest(patience_s=0)
        assert (latest.value, latest.problem) == (7, "down")
