"""What the writer's thread does when the journal is empty: import and heal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from hermes_pgmemory import memory_files
from hermes_pgmemory.batcher import Batcher
from hermes_pgmemory.errors import (
    DimensionMismatch,
    PgMemoryError,
    UnstorableWrite,
)
from hermes_pgmemory.models import Target, Theme, Vector, Write
from hermes_pgmemory.private_notes import PrivateNotes
from hermes_pgmemory.store import Store, Table, Unembedded

TIMEOUT_S: Final = 5.0
HEAL_BATCH: Final = 32
HEAL_EVERY_S: Final = 30.0

log = logging.getLogger("hermes_pgmemory")


class FileImport:
    """Imports MEMORY.md and USER.md of one home when they have changed."""

    def __init__(self, folder: Path, store: Store, private: PrivateNotes) -> None:
        """Watch the two files in *folder*; leave *private* entries alone."""
        self._private = private
        self._folder = folder
        self._store = store
        self._theme: Theme | None = None
        self._done: dict[Target, memory_files.Stamp] = {}

    def wanted_for(self, theme: Theme) -> bool:
        """Import for *theme* from now on; tell whether there is anything to do."""
        self._theme = theme
        return any(
            memory_files.stamp_of(self._folder / name)
            not in (None, self._done.get(target))
            for target, name in memory_files.FILES.items()
        )

    def run(self, submit: Callable[[Iterable[Write]], None]) -> float | None:
        """Submit what is new; return the seconds after which to look again."""
        if self._theme is None:
            return None
        again_s: float | None = None
        for target in memory_files.FILES:
            file = memory_files.read(self._folder, target)
            if file is None or self._done.get(target) == file.stamp:
                continue
            if file.age_s < memory_files.SETTLE_S:
                again_s = memory_files.SETTLE_S
                continue
            known = self._store.contents_from(file.source, timeout_s=TIMEOUT_S)
            open_to_all = self._private.without(file.entries)
            shared = replace(file, entries=open_to_all)
            submit(memory_files.additions(shared, known, theme=self._theme))
            self._done[target] = file.stamp
        return again_s


class Healer:
    """Embeds, batch by batch, rows that were stored while the embedder was down.

    One round over the database when a process starts, for what others left, and one
    whenever this process stored rows without vectors.
    """

    def __init__(self, store: Store, batcher: Batcher) -> None:
        """Take rows from *store* and vectors from *batcher*."""
        self._store = store
        self._batcher = batcher
        self._healed_to = -1
        self._passed = dict.fromkeys(Table, 0)

    def run(self) -> float | None:
        """Heal one batch; return the seconds after which to go on, if any are left."""
        bare = self._batcher.bare
        if bare == self._healed_to:
            return None
        for table in Table:
            rows = self._store.unembedded(
                table, limit=HEAL_BATCH, after=self._passed[table], timeout_s=TIMEOUT_S
            )
            if rows:
                return self._heal(table, rows)
        self._passed = dict.fromkeys(Table, 0)
        self._healed_to = bare
        return None

    def _heal(self, table: Table, rows: Sequence[Unembedded]) -> float:
        vectors = self._batcher.embed([row.content for row in rows])
        if vectors is None:
            return HEAL_EVERY_S
        healed = [
            (row, vector)
            for row, vector in zip(rows, vectors, strict=True)
            if not isinstance(vector, PgMemoryError)
        ]
        # A text the model refuses is not offered again in this round.
        self._passed[table] = rows[-1].id
        self._keep(table, healed)
        return 0.0

    def _keep(self, table: Table, healed: Sequence[tuple[Unembedded, Vector]]) -> None:
        """Store vectors; halve them around one that the database refuses."""
        try:
            self._store.set_vectors(table, healed, timeout_s=TIMEOUT_S)
        except DimensionMismatch as exc:
            self._batcher.when_misfit(exc)
        except UnstorableWrite as exc:
            if len(healed) == 1:
                log.warning("a vector was refused: %s", exc)
                return
            half = len(healed) // 2
            self._keep(table, healed[:half])
            self._keep(table, healed[half:])
