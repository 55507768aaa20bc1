from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_pgmemory.ranking import Scale, mix

similarity = st.floats(-1.001, 1.001)
legs = st.lists(
    st.dictionaries(st.integers(1, 30), st.floats(0, 1), max_size=20), max_size=3
)


E5 = Scale(floor=0.75, ceiling=0.90)


class TestScale:
    def test_without_rows_the_models_floor_is_the_baseline(self):
        assert E5.baseline(None, 0) == 0.75

    def test_many_rows_outweigh_the_floor_and_few_do_not(self):
        assert E5.baseline(0.79, 1) == pytest.approx(0.758)
        assert E5.baseline(0.79, 256) == pytest.approx(0.79, abs=1e-3)

    def test_relevance_runs_from_the_baseline_to_the_ceiling(self):
        assert E5.relevance(0.76, 0.76) == 0.0
        assert E5.relevance(0.83, 0.76) == pytest.approx(0.5)
        assert E5.relevance(0.90, 0.76) == pytest.approx(1.0)

    def test_the_same_question_asked_of_nearer_texts_is_judged_by_them(self):
        """A question that is near to everything makes nothing relevant."""
        assert E5.relevance(0.82, 0.81) < 0.2 < E5.relevance(0.82, 0.76)

    @given(
        similarity, similarity, similarity, st.integers(0, 999), st.floats(0.0, 0.99)
    )
    def test_it_stays_in_range_and_keeps_order(self, one, other, mean, rows, floor):
        scale = Scale(floor=floor, ceiling=1.0)
        baseline = scale.baseline(mean, rows)
        low, high = sorted((one, other))
        assert 0 <= scale.relevance(low, baseline) <= scale.relevance(high, baseline)
        assert scale.relevance(high, baseline) <= 1


class TestMix:
    def test_averages_both_legs(self):
        assert mix([{1: 1.0, 2: 0.5}, {2: 1.0, 3: 0.5}]) == [
            (2, 0.75),
            (1, 0.5),
            (3, 0.25),
        ]

    def test_leaves_a_single_ranking_as_it_is(self):
        assert mix([{1: 0.4, 2: 1.0}, {}]) == [(2, 1.0), (1, 0.4)]

    def test_breaks_ties_by_the_smaller_id(self):
        assert mix([{9: 1.0, 3: 1.0, 5: 1.0}]) == [(3, 1.0), (5, 1.0), (9, 1.0)]

    def test_of_nothing_is_nothing(self):
        assert mix([]) == mix([{}, {}]) == []

    @given(legs)
    def test_ranks_exactly_the_union(self, given_legs):
        ranked = mix(given_legs)
        assert sorted(row for row, _ in ranked) == sorted(
            {r for x in given_legs for r in x}
        )
        assert [score for _, score in ranked] == sorted(
            (score for _, score in ranked), reverse=True
        )
        assert all(0 <= score <= 1 for _, score in ranked)

    @given(legs, st.randoms())
    def test_ignores_the_order_of_the_legs(self, given_legs, random):
        before = dict(mix(given_legs))
        random.shuffle(given_legs)
        assert dict(mix(given_legs)) == pytest.approx(before)
