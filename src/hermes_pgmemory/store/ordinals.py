"""The how-many-eth time a turn was said, found again from its key.

A row does not hold the number, only a hash that it went into.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from hermes_pgmemory.models import AddTurn
from hermes_pgmemory.store.turns import turn_key

MOST: Final = 2_000
"""Repetitions that are tried; a session that says one thing more often is a machine."""
KEPT: Final = 4_096

Said = tuple[str, str, int]


class Ordinals:
    """Finds ordinals; remembers the last one of what was lately asked for."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._last: OrderedDict[Said, int] = OrderedDict()

    def of(self, turn: AddTurn, key: bytes) -> int | None:
        """Return the ordinal that *turn* has if *key* is its key; None: not found."""
        said = (turn.session_id, turn.role.value, hash((turn.content, turn.subject)))
        guess = self._last.get(said, 0) + 1
        found = next((n for n in (guess, *range(1, MOST)) if _fits(turn, n, key)), None)
        if found is None:
            return None
        self._last[said] = found
        self._last.move_to_end(said)
        while len(self._last) > KEPT:
            self._last.popitem(last=False)
        return found


def _fits(turn: AddTurn, ordinal: int, key: bytes) -> bool:
    turn.ordinal = ordinal
    return turn_key(turn) == key
