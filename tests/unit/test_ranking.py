from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_pgmemory.ranking import min_max, mix

scores = st.dictionaries(st.integers(1, 30), st.floats(-1e6, 1e6), max_size=20)
legs = st.lists(
    st.dictionaries(st.integers(1, 30), st.floats(0, 1), max_size=20), max_size=3
)


class TestMinMax:
    def test_stretches_over_the_whole_range(self):
        assert min_max({1: 0.7, 2: 0.8, 3: 0.9}) == pytest.approx({1: 0, 2: 0.5, 3: 1})

    def test_measures_from_a_given_low(self):
        assert min_max({1: 2.0, 2: 4.0}, low=0.0) == {1: 0.5, 2: 1.0}

    def test_gives_equal_scores_full_marks(self):
        assert min_max({1: 0.3, 2: 0.3}) == {1: 1.0, 2: 1.0}

    def test_of_nothing_is_nothing(self):
        assert min_max({}) == {}

    @given(scores)
    def test_keeps_the_order_and_stays_in_range(self, given_scores):
        scaled = min_max(given_scores)
        assert scaled.keys() == given_scores.keys()
        assert all(0 <= score <= 1 for score in scaled.values())
        for one in scaled:
            for other in scaled:
                if given_scores[one] > given_scores[other]:
                    assert scaled[one] >= scaled[other]


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
