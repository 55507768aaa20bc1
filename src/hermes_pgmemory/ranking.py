"""Turn several kinds of score into one ranking. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

    def relevance(self, similarity: float, baseline: float) -> float:
        """Map a cosine to [0, 1]: 0 is no nearer than *baseline*, 1 is the ceiling."""
        span = max(self.ceiling - baseline, 1e-6)
        return min(1.0, max(0.0, (similarity - baseline) / span))


COSINE: Final = Scale()
"""The scale of a model nothing is known of."""


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
