"""Turn several kinds of score into one ranking. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def min_max(
    scores: Mapping[int, float], *, low: float | None = None
) -> dict[int, float]:
    """Stretch *scores* over [0, 1], so that two kinds of score can be added.

    Args:
        scores: Row id to score; finite, higher is better.
        low: The score that becomes 0; the lowest of *scores* where it is not given.
            No score may be below it.

    Returns:
        The same ids; the best has 1. Scores that are all equal all have 1.
    """
    if not scores:
        return {}
    least = min(scores.values()) if low is None else low
    span = max(scores.values()) - least
    if span <= 0:
        return dict.fromkeys(scores, 1.0)
    return {row: (score - least) / span for row, score in scores.items()}


def mix(legs: Sequence[Mapping[int, float]]) -> list[tuple[int, float]]:
    """Average several scores of the same rows; a row that a leg lacks has 0 in it.

    Args:
        legs: Each maps row ids to scores in [0, 1]. An empty leg has no say, so that
            a single ranking keeps its scores.

    Returns:
        ``(id, score)`` of every row in any leg, best first, scores in [0, 1]. Ties
        break on the smaller id: equal inputs give equal outputs.
    """
    voting = [leg for leg in legs if leg]
    rows = {row for leg in voting for row in leg}
    scores = {
        row: sum(leg.get(row, 0.0) for leg in voting) / len(voting) for row in rows
    }
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
