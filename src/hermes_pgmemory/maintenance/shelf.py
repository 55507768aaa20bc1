"""Where rows wait for vectors: in the columns in use, or in those of a move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hermes_pgmemory.maintenance import (
    PART_TIMEOUT_S,
    READ_TIMEOUT_S,
    label,
)
from hermes_pgmemory.models import Vector
from hermes_pgmemory.store import Store, Table, Unembedded
from hermes_pgmemory.store.upkeep import NAMES


class Shelf(Protocol):
    """Rows that wait for vectors, of whichever kind."""

    def waiting(self, table: Table, /) -> tuple[int, int]:
        """Return how many wait, and the id of the last of them."""
        ...

    def unembedded(
        self, table: Table, /, *, limit: int, after: int
    ) -> Sequence[Unembedded]:
        """Return up to *limit* of them whose id exceeds *after*, by id."""
        ...

    def set_vectors(
        self, table: Table, given: Sequence[tuple[Unembedded, Vector]], /
    ) -> int:
        """Give rows their vectors; return how many still wanted one."""
        ...

    def open_run(self, table: Table, /) -> int:
        """Start a line of the log and return its id."""
        ...

    def add_to_run(
        self, run: int, /, *, affected: int = 0, details: Mapping[str, Any]
    ) -> None:
        """Add rows to a line of the log."""
        ...


class Bare:
    """The rows of a store that have no vector: what `backfill` is for."""

    def __init__(self, store: Store, *, theme: str | None = None) -> None:
        """Take the rows of *theme*; None for all."""
        self._store = store
        self._theme = theme

    def waiting(self, table: Table) -> tuple[int, int]:
        """See `Shelf`."""
        return self._store.maintenance.waiting(
            table, theme=self._theme, timeout_s=READ_TIMEOUT_S
        )

    def unembedded(
        self, table: Table, *, limit: int, after: int
    ) -> Sequence[Unembedded]:
        """See `Shelf`."""
        return self._store.unembedded(
            table,
            limit=limit,
            after=after,
            theme=self._theme,
            timeout_s=PART_TIMEOUT_S,
        )

    def set_vectors(
        self, table: Table, given: Sequence[tuple[Unembedded, Vector]]
    ) -> int:
        """See `Shelf`."""
        return self._store.set_vectors(table, given, timeout_s=PART_TIMEOUT_S)

    def open_run(self, table: Table) -> int:
        """See `Shelf`."""
        return self._store.maintenance.open_run(
            "backfill",
            NAMES[table],
            pattern=self._theme and label(self._theme),
            details={},
            timeout_s=PART_TIMEOUT_S,
        )

    def add_to_run(
        self, run: int, *, affected: int = 0, details: Mapping[str, Any]
    ) -> None:
        """See `Shelf`."""
        self._store.maintenance.add_to_run(
            run, affected=affected, details=details, timeout_s=PART_TIMEOUT_S
        )
