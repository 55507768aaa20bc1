"""What similarities mean, model by model. `store/search.sql` ranks by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What similarities of one model mean; see `embedding_models`."""

    floor: float = 0.0
    """Cosine of unrelated texts, in [0, 1)."""
    ceiling: float = 1.0
    """Cosine of a question and a text that answers it outright, above *floor*."""


COSINE: Final = Scale()
"""The scale of a model nothing is known of."""
