"""From the signals of a search to one ranking, and to what is worth telling. Pure.

A row has two signals: its similarity to the question, which `Scale` turns into a
nearness, and the share of the question's words it holds. `mix` makes a score of both,
`in_context` lets the turns around a turn have their say, and `relevance` tells whether
a row bears on the question at all, which is more than being the best there is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nlargest
from itertools import combinations
from statistics import fmean
from typing import Final

PRIOR_ROWS: Final = 4
"""How many rows the model's floor counts for against the rows at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What similarities of one model mean; see `embedding_models`."""

    floor: float = 0.0
    """Cosine of unrelated texts, in [0, 1)."""
    ceiling: float = 1.0
    """Cosine of a question and a text that answers it outright, above *floor*."""

    def baseline(self, mean: float | None, rows: int) -> float:
        """Return what an unrelated text has to this very question.

        Some questions are near to everything, some to nothing; the mean over the rows
        at hand tells, and few rows tell little.

        Args:
            mean: Mean cosine of the question and *rows* rows; None without any.
            rows: At least 0.
        """
        if mean is None:
            return self.floor
        return (rows * mean + PRIOR_ROWS * self.floor) / (rows + PRIOR_ROWS)

    def nearness(self, similarity: float, baseline: float) -> float:
        """Map a cosine to [0, 1]: 0 is no nearer than *baseline*, 1 is the ceiling."""
        span = max(self.ceiling - baseline, 1e-6)
        return min(1.0, max(0.0, (similarity - baseline) / span))


COSINE: Final = Scale()
"""The scale of a model nothing is known of."""


_NEARNESS_SHARE: Final = 0.8
_PER_ROWS: Final = 0.035
_USUAL_ROWS: Final = 100


def relevance(
    nearness: float | None, lexical: float, *, rows: int, wordless: bool = False
) -> float:
    """Return how surely a row bears on the question, in [0, 1].

    Among more rows one that seems near is more likely by chance, so that it takes
    more to be sure. The weights were fitted on questions that nothing answers, asked
    of 10 to 500 rows, so that a relevance of 0.3 rejects nine of ten at any number.

    Args:
        nearness: See `Scale.nearness`; None for a row without a vector.
        lexical: The share of the question's words it holds, by rarity, in [0, 1].
        rows: How many rows were searched.
        wordless: The question has no words that could be held.
    """
    if nearness is None:
        sure = lexical
    elif wordless:
        sure = nearness
    else:
        sure = _NEARNESS_SHARE * nearness + (1 - _NEARNESS_SHARE) * lexical
    sure -= _PER_ROWS * math.log(max(rows, 1) / _USUAL_ROWS)
    return min(1.0, max(0.0, sure))


_WORDS_SHARE: Final = 0.55


def mix(near: Mapping[int, float], spoken: Mapping[int, float]) -> dict[int, float]:
    """Make one score of a row's nearness and of the words it holds.

    Words count for a little more, by what four LoCoMo conversations say.

    Args:
        near: The nearness of rows, by id, in [0, 1].
        spoken: The share of the question's words that rows hold, in [0, 1]. A row that
            is in one of the two alone has 0 in the other; but one that is empty has no
            say, so that a single ranking keeps its scores.

    Returns:
        The score of every row in either, in [0, 1].
    """
    if not near or not spoken:
        return dict(near or spoken)
    return {
        row: (1 - _WORDS_SHARE) * near.get(row, 0.0)
        + _WORDS_SHARE * spoken.get(row, 0.0)
        for row in near.keys() | spoken.keys()
    }


_BY_DISTANCE: Final = {1: 0.2, 2: 0.15}
"""What a turn so many turns away adds."""
_BY_SESSION: Final = 0.3
_BEST_OF_SESSION: Final = 3


def in_context(
    scores: Mapping[int, float],
    chains: Iterable[Sequence[int]],
    sessions: Mapping[int, Hashable],
) -> dict[int, float]:
    """Let the turns around a turn, and its session's best, have their say.

    A turn is seldom an answer alone: "at five" is one beside "when is tea?". The
    weights were chosen on four LoCoMo conversations; see docs/benchmarks.md.

    Args:
        scores: The score of each turn by itself, in [0, 1].
        chains: Turns that follow each other in a session, by their ids. Chains may
            overlap, and hold turns without a score, which count 0.
        sessions: The session of each scored turn.

    Returns:
        The scores in context, weighted means in [0, 1].
    """
    weights: dict[tuple[int, int], float] = {}
    for chain in chains:
        for (place, one), (other_place, other) in combinations(enumerate(chain), 2):
            weight = _BY_DISTANCE.get(other_place - place)
            if weight is not None:
                weights[one, other] = weights[other, one] = weight
    together: dict[Hashable, list[float]] = defaultdict(list)
    for row, score in scores.items():
        together[sessions[row]].append(score)
    best = {
        session: fmean(nlargest(_BEST_OF_SESSION, told))
        for session, told in together.items()
    }
    sums = {
        row: score + _BY_SESSION * best[sessions[row]] for row, score in scores.items()
    }
    shares = dict.fromkeys(scores, 1 + _BY_SESSION)
    for (row, neighbour), weight in weights.items():
        if row in sums:
            sums[row] += weight * scores.get(neighbour, 0.0)
            shares[row] += weight
    return {row: sums[row] / shares[row] for row in scores}


_MOST_HALVINGS: Final = 1_000
"""Beyond these nothing would be left of a score to rank by."""


def faded(
    scores: Mapping[int, float], times: Mapping[int, datetime], half_life_days: float
) -> dict[int, float]:
    """Let scores fade with age, counted from the newest row among them.

    Args:
        scores: At least 0.
        times: When each scored row is from.
        half_life_days: After so many days half of a score is left; 0 fades nothing.

    Returns:
        Scores no higher than before. Rows of one time keep their order.
    """
    if not half_life_days or not scores:
        return dict(scores)
    newest = max(times[row] for row in scores)
    halvings = {
        row: (newest - times[row]) / timedelta(days=1) / half_life_days
        for row in scores
    }
    return {
        row: score * 0.5 ** min(halvings[row], _MOST_HALVINGS)
        for row, score in scores.items()
    }


def best(
    scores: Mapping[int, float], nearer: Mapping[int, float] | None = None
) -> list[int]:
    """Return the rows, best first.

    Args:
        scores: The score of each row.
        nearer: What decides between rows that score 0, larger first: they are no nearer
            than an unrelated text, but some are nearer than others. Any other tie, and
            what is left of these, goes to the smaller id.
    """
    tied = nearer or {}

    def place(row: int) -> tuple[float, float, int]:
        # Sums of the same numbers in another order differ in the last digits.
        score = float(f"{scores[row]:.9g}")
        return -score, 0.0 if score else -tied.get(row, -math.inf), row

    return sorted(scores, key=place)
