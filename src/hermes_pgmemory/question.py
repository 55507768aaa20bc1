"""A question, as the library is asked it."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_pgmemory.models import ANY, Facets, Scope, Vector
from hermes_pgmemory.ranking import COSINE, Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, of whose rows, and how the answers are to be ranked."""

    text: str
    """For its words; blank searches by meaning alone."""
    vector: Vector | None
    """The same, embedded by the active model; None searches by words alone."""
    scope: Scope
    """Whose rows."""
    facets: Facets = ANY
    """What else narrows the search; like a scope, never an answer."""
    limit: int
    """At least 1. Fewer come back only where no more match: what repeats a better one
    gives way to the next best."""
    scale: Scale = COSINE
    """What the active model's similarities mean."""
    half_life_days: float = 0.0
    """Age at which a row ranks half as high; 0 for any."""
