from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_pgmemory.ranking import Scale, best, faded, in_context, mix, relevance

similarity = st.floats(-1.001, 1.001)
leg = st.dictionaries(st.integers(1, 30), st.floats(0, 1), max_size=20)


E5 = Scale(floor=0.75, ceiling=0.90)


class TestScale:
    def test_without_rows_the_models_floor_is_the_baseline(self):
        assert E5.baseline(None, 0) == 0.75

    def test_many_rows_outweigh_the_floor_and_few_do_not(self):
        assert E5.baseline(0.79, 1) == pytest.approx(0.758)
        assert E5.baseline(0.79, 256) == pytest.approx(0.79, abs=1e-3)

    def test_nearness_runs_from_the_baseline_to_the_ceiling(self):
        assert E5.nearness(0.76, 0.76) == 0.0
        assert E5.nearness(0.83, 0.76) == pytest.approx(0.5)
        assert E5.nearness(0.90, 0.76) == pytest.approx(1.0)

    def test_the_same_question_asked_of_nearer_texts_is_judged_by_them(self):
        """A question that is near to everything makes nothing near."""
        assert E5.nearness(0.82, 0.81) < 0.2 < E5.nearness(0.82, 0.76)

    @given(
        similarity, similarity, similarity, st.integers(0, 999), st.floats(0.0, 0.99)
    )
    def test_it_stays_in_range_and_keeps_order(self, one, other, mean, rows, floor):
        scale = Scale(floor=floor, ceiling=1.0)
        baseline = scale.baseline(mean, rows)
        low, high = sorted((one, other))
        assert 0 <= scale.nearness(low, baseline) <= scale.nearness(high, baseline)
        assert scale.nearness(high, baseline) <= 1


class TestRelevance:
    def test_words_and_meaning_both_count(self):
        assert relevance(0.5, 0.5, rows=100) == pytest.approx(0.5)
        assert relevance(0.5, 0.0, rows=100) == pytest.approx(0.4)
        assert relevance(0.0, 0.5, rows=100) == pytest.approx(0.1)

    def test_a_row_without_a_vector_has_its_words_alone(self):
        assert relevance(None, 0.5, rows=100) == pytest.approx(0.5)

    def test_a_question_without_words_is_judged_by_meaning_alone(self):
        assert relevance(0.5, 0.0, rows=100, wordless=True) == pytest.approx(0.5)

    def test_among_more_rows_it_takes_more(self):
        sure = [relevance(0.5, 0.5, rows=n) for n in (0, 10, 100, 1000, 10**6)]
        assert sure == sorted(sure, reverse=True)
        assert sure[0] > sure[2] > sure[-1]

    @given(
        st.none() | st.floats(0, 1),
        st.floats(0, 1),
        st.integers(0, 10**9),
        st.booleans(),
    )
    def test_it_stays_in_range(self, nearness, lexical, rows, wordless):
        sure = relevance(nearness, lexical, rows=rows, wordless=wordless)
        assert 0 <= sure <= 1


class TestMix:
    def test_weighs_both(self):
        mixed = mix({1: 1.0, 2: 0.5}, {2: 1.0, 3: 1.0})
        assert mixed == pytest.approx({1: 0.45, 2: 0.775, 3: 0.55})

    def test_leaves_a_single_ranking_as_it_is(self):
        assert mix({1: 0.4, 2: 1.0}, {}) == {1: 0.4, 2: 1.0}
        assert mix({}, {1: 0.4, 2: 1.0}) == {1: 0.4, 2: 1.0}

    def test_of_nothing_is_nothing(self):
        assert mix({}, {}) == {}

    @given(leg, leg)
    def test_scores_exactly_the_union(self, near, spoken):
        mixed = mix(near, spoken)
        assert set(mixed) == set(near) | set(spoken)
        assert all(0 <= score <= 1 for score in mixed.values())


class TestBest:
    def test_breaks_ties_by_the_smaller_id(self):
        assert best({9: 1.0, 3: 1.0, 5: 1.0 - 1e-12}) == [3, 5, 9]

    def test_comes_before_the_less_good(self):
        assert best({1: 0.1, 2: 0.9, 3: 0.5}) == [2, 3, 1]


class TestInContext:
    def test_a_turn_alone_keeps_its_score(self):
        assert in_context({1: 0.5}, [[1]], {1: "s"}) == pytest.approx({1: 0.5})

    def test_equals_keep_their_score(self):
        scores = dict.fromkeys(range(5), 0.4)
        context = in_context(scores, [list(range(5))], dict.fromkeys(range(5), "s"))
        assert context == pytest.approx(scores)

    def test_nearer_neighbours_add_more(self):
        sessions = dict.fromkeys(range(1, 5), "s")
        scores = {1: 1.0, 2: 0.0, 3: 0.0, 4: 0.0}
        context = in_context(scores, [[1, 2, 3], [2, 3, 4]], sessions)
        assert context[1] > context[2] > context[3] > context[4] > 0

    def test_a_chain_met_twice_counts_once(self):
        sessions = {1: "s", 2: "s"}
        once = in_context({1: 1.0, 2: 0.0}, [[1, 2]], sessions)
        assert in_context({1: 1.0, 2: 0.0}, [[1, 2], [1, 2]], sessions) == once

    def test_by_the_written_weights(self):
        context = in_context({1: 0.8, 2: 0.2}, [[1, 2]], {1: "s", 2: "s"})
        assert context[1] == pytest.approx((0.8 + 0.2 * 0.2 + 0.3 * 0.5) / 1.5)

    def test_an_unscored_neighbour_counts_as_nothing(self):
        assert in_context({1: 0.5}, [[1, 7]], {1: "s"})[1] < 0.5

    def test_another_session_adds_nothing(self):
        context = in_context({1: 1.0, 2: 0.1}, [[1], [2]], {1: "s", 2: "t"})
        assert context == pytest.approx({1: 1.0, 2: 0.1})

    @given(
        st.dictionaries(st.integers(0, 20), st.floats(0, 1)),
        st.lists(st.lists(st.integers(0, 20), max_size=5, unique=True), max_size=10),
    )
    def test_stays_in_range_and_loses_nobody(self, scores, chains):
        context = in_context(scores, chains, {row: row % 3 for row in scores})
        assert set(context) == set(scores)
        assert all(-1e-9 <= score <= 1 + 1e-9 for score in context.values())


NOW = datetime(2026, 5, 3, tzinfo=UTC)
ages = st.dictionaries(
    st.integers(1, 30), st.tuples(st.floats(0, 1), st.floats(0, 40_000)), max_size=20
)


def _parts(rows):
    scores = {row: score for row, (score, _) in rows.items()}
    return scores, {row: NOW - timedelta(days=age) for row, (_, age) in rows.items()}


class TestFaded:
    def test_after_its_half_life_half_is_left(self):
        scores, times = _parts({1: (0.8, 0), 2: (0.8, 30), 3: (0.8, 60)})
        assert faded(scores, times, 30) == pytest.approx({1: 0.8, 2: 0.4, 3: 0.2})

    def test_a_half_life_of_zero_fades_nothing(self):
        scores, times = _parts({1: (0.8, 0), 2: (0.8, 9_999)})
        assert faded(scores, times, 0) == scores

    def test_what_is_old_altogether_keeps_its_scores(self):
        scores, times = _parts({1: (0.8, 9_000), 2: (0.6, 9_000)})
        assert faded(scores, times, 1) == scores

    def test_ages_ago_the_better_is_still_the_better(self):
        scores, times = _parts({1: (0.1, 0), 2: (0.2, 36_500), 3: (0.9, 36_500)})
        assert best(faded(scores, times, 0.1)) == [1, 3, 2]

    @given(ages, st.floats(0.001, 36_500))
    def test_no_score_rises_and_equal_ages_keep_their_order(self, rows, half_life):
        scores, times = _parts(rows)
        less = faded(scores, times, half_life)
        assert less.keys() == scores.keys()
        assert all(0 <= less[row] <= scores[row] for row in scores)
        for one in scores:
            for other in scores:
                if times[one] >= times[other] and scores[one] >= scores[other]:
                    assert less[one] >= less[other]

    @given(ages, st.floats(0.001, 36_500), st.floats(0, 1_000))
    def test_only_differences_of_age_matter(self, rows, half_life, later):
        scores, times = _parts(rows)
        shifted = {row: at - timedelta(days=later) for row, at in times.items()}
        assert faded(scores, shifted, half_life) == pytest.approx(
            faded(scores, times, half_life), abs=1e-6
        )


def test_of_rows_without_a_score_the_nearer_is_better_and_then_the_older():
    scores = {1: 0.0, 2: 0.0, 3: 0.0, 4: 0.5, 5: 0.0}
    assert best(scores, {2: 0.1, 3: 0.2, 5: 0.2}) == [4, 3, 5, 2, 1]
    assert best(scores)[:2] == [4, 1]
