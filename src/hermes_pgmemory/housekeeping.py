"""What is done beside a process's own writes.

Taking over what dead processes left, following files, healing, trying letters again.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from hermes_pgmemory import memory_files
from hermes_pgmemory.batcher import Batcher
from hermes_pgmemory.codec import ENTRY_RECORDS
from hermes_pgmemory.errors import (
    DimensionMismatch,
    ModelMismatch,
    PgMemoryError,
    UnstorableWrite,
)
from hermes_pgmemory.journal import DeadLetters, orphans, waiting
from hermes_pgmemory.memory_files import MemoryFile
from hermes_pgmemory.models import FileVerdict, Target, Theme, Vector, Write
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.private_notes import PrivateNotes
from hermes_pgmemory.store import Store, Table, Unembedded

ADOPT_EVERY_S: Final = 60.0
TIMEOUT_S: Final = 5.0
HEAL_BATCH: Final = 32
HEAL_EVERY_S: Final = 30.0

log = logging.getLogger("hermes_pgmemory")


class Adopter:
    """Stores what dead processes of one home left, oldest first.

    What they left before this process began comes before its own writes, so the first
    run waits for whoever is storing that. Later ones let them.
    """

    def __init__(
        self,
        folder: Path,
        batcher: Batcher,
        *,
        quota_bytes: int,
        give_up: threading.Event,
    ) -> None:
        """Take over journals of *folder* with *batcher*, until *give_up* is set."""
        self._folder = folder
        self._batcher = batcher
        self._quota = quota_bytes
        self._give_up = give_up
        self._began_at = 0.0
        self._adopted = False

    def run(self) -> None:
        """Store all that is left.

        Raises:
            Unavailable: The rest stays where it is; the next call tries again.
        """
        self._began_at = time.monotonic()
        left = orphans(
            self._folder,
            quota_bytes=self._quota,
            wait=not self._adopted,
            give_up=self._give_up,
        )
        with closing(left):
            for journal in left:
                log.info("taking over %d writes of a dead process", journal.depth)
                while not self._give_up.is_set() and self._batcher.drain_once(journal):
                    pass
        self._adopted = True

    def run_now_and_then(self) -> float:
        """Do it once in `ADOPT_EVERY_S`, however often this is called; return that."""
        if time.monotonic() - self._began_at >= ADOPT_EVERY_S:
            self.run()
        return ADOPT_EVERY_S


class FileMirror:
    """Follows MEMORY.md and USER.md of one home: most changes come without a hook.

    Approved writes, background reviews, people and other programs change the files. A
    file that has not changed costs a `stat`. One that has is compared with its rows
    only once no write of an entry waits in any journal of the home: such a write may
    be why the file changed, and must come first.
    """

    def __init__(self, paths: HomePaths, store: Store, private: PrivateNotes) -> None:
        """Follow the files of a home; never import what is *private*."""
        self._paths = paths
        self._private = private
        self._store = store
        self._theme: Theme | None = None
        self._done: dict[Target, memory_files.Stamp | None] = {}
        self._seen: dict[Target, tuple[memory_files.Stamp | None, float]] = {}
        self._told: set[str] = set()

    def wanted_for(self, theme: Theme) -> bool:
        """Import into *theme* from now on; tell whether there is anything to do."""
        self._theme = theme
        return any(map(self._changed, Target))

    def run(self, submit: Callable[[Iterable[Write]], None]) -> float | None:
        """Follow what has changed; return the seconds after which to look again.

        Raises:
            Unavailable: The database or the journal; the next call tries again.
        """
        if (theme := self._theme) is None:
            return None
        settled = True
        for target in filter(self._changed, Target):
            try:
                file = memory_files.read(self._paths, target)
            except OSError as exc:
                self._warn(
                    f"{memory_files.FILES[target]} cannot be read ({exc.strerror}): "
                    "nothing is imported from it or retired until it can"
                )
                continue
            if not self._is_settled(file) or not self._follow(file, theme, submit):
                settled = False
        return None if settled else memory_files.SETTLE_S

    def _changed(self, target: Target) -> bool:
        return target not in self._done or self._done[target] != self._stamp(target)

    def _stamp(self, target: Target) -> memory_files.Stamp | None:
        return memory_files.stamp_of(self._paths.memories / memory_files.FILES[target])

    def _is_settled(self, file: MemoryFile) -> bool:
        """Tell whether the host had time to report the change, and we to store it."""
        now = time.monotonic()
        stamp, since = self._seen.get(file.target, (None, now))
        if stamp != file.stamp:
            since = now
        self._seen[file.target] = file.stamp, since
        # By our own clock too: a file may come from a host whose clock is ahead.
        age_s = max(file.age_s, now - since)
        if age_s < memory_files.SETTLE_S:
            return False
        return not waiting(self._paths.journal, ENTRY_RECORDS)

    def _follow(
        self,
        file: MemoryFile,
        theme: Theme,
        submit: Callable[[Iterable[Write]], None],
    ) -> bool:
        """Bring the rows in line with *file*; False if it has changed meanwhile."""
        rows, verdict = self._store.reconcile(
            file.ids,
            judge=partial(memory_files.compare, file),
            unchanged=lambda: self._stamp(file.target) == file.stamp,
            at=file.changed_at,
            timeout_s=TIMEOUT_S,
        )
        if verdict is None:
            return False
        self._tell(file, verdict)
        shared = replace(file, entries=self._private.without(file.entries))
        submit(memory_files.additions(shared, rows, theme=theme))
        self._done[file.target] = file.stamp
        return True

    def _tell(self, file: MemoryFile, verdict: FileVerdict) -> None:
        name = memory_files.FILES[file.target]
        if file.unreadable:
            self._warn(
                f"{name} holds {file.unreadable} entries that are not UTF-8; they "
                "were left out"
            )
        if verdict.doubtful:
            log.warning(
                "%s lost %d entries at once, which are still recalled: put them back, "
                "or let `hermes-pgvector reconcile --execute` retire them",
                name,
                len(verdict.doubtful),
            )
        if verdict.gone:
            log.info("%s holds %d entries no more", name, len(verdict.gone))

    def _warn(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            log.warning("%s", line)


class _Round:
    """One walk over a table: from some row to the last, then from the first to it."""

    def __init__(self, start: int) -> None:
        self.start = self.passed = start
        self.wrapped = False


class Healer:
    """Embeds, batch by batch, rows that were stored while the embedder was down.

    One round over the database when a process starts, for what others left, and one
    whenever this process stored rows without vectors. All processes of a fleet notice
    at once that an embedder is back, so each begins somewhere else: what it meets that
    others have done, it passes.
    """

    def __init__(self, store: Store, batcher: Batcher) -> None:
        """Take rows from *store* and vectors from *batcher*."""
        self._store = store
        self._batcher = batcher
        self._healed_to = -1
        self._rounds: dict[Table, _Round] = {}

    def begin_anew(self) -> None:
        """Offer every row again: the model is another one now."""
        self._healed_to = -1
        self._rounds.clear()

    def run(self) -> float | None:
        """Heal one batch; return the seconds after which to go on, if any are left."""
        bare = self._batcher.bare
        if bare == self._healed_to:
            return None
        for table in Table:
            if rows := self._next(table):
                return self._heal(table, rows)
        self._rounds.clear()
        self._healed_to = bare
        return None

    def _next(self, table: Table) -> Sequence[Unembedded]:
        """Return the next rows of this round, none at its end."""
        if table not in self._rounds:
            span = self._store.bare(table, timeout_s=TIMEOUT_S)
            if span is None:
                return ()
            start = random.randrange(span[0] - 1, span[1])  # noqa: S311 - no secret
            self._rounds[table] = _Round(start)
        round_ = self._rounds[table]
        rows = self._after(table, round_.passed)
        if not rows and not round_.wrapped:
            round_.wrapped, round_.passed = True, 0
            rows = self._after(table, 0)
        return [row for row in rows if not round_.wrapped or row.id <= round_.start]

    def _after(self, table: Table, place: int) -> Sequence[Unembedded]:
        return self._store.unembedded(
            table, limit=HEAL_BATCH, after=place, timeout_s=TIMEOUT_S
        )

    def _heal(self, table: Table, rows: Sequence[Unembedded]) -> float:
        vectors = self._batcher.embed([row.text for row in rows])
        if vectors is None:
            return HEAL_EVERY_S
        healed = [
            (row, vector)
            for row, vector in zip(rows, vectors, strict=True)
            if not isinstance(vector, PgMemoryError)
        ]
        self._keep(table, healed)
        # A text the model refuses is not offered again in this round.
        self._rounds[table].passed = rows[-1].id
        return 0.0

    def _keep(self, table: Table, healed: Sequence[tuple[Unembedded, Vector]]) -> None:
        """Store vectors; halve them around one that the database refuses."""
        try:
            self._store.set_vectors(table, healed, timeout_s=TIMEOUT_S)
        except (DimensionMismatch, ModelMismatch) as exc:
            self._batcher.when_misfit(exc)
        except UnstorableWrite as exc:
            if len(healed) == 1:
                log.warning("a vector was refused: %s", exc)
                return
            half = len(healed) // 2
            self._keep(table, healed[:half])
            self._keep(table, healed[half:])


def retry_dead_letters(folder: Path, batcher: Batcher, *, timeout_s: float) -> bool:
    """Offer the dead letters of *folder* to the database once more, in their order.

    What it refuses again stays, with the newest reason. False when the time is up
    before all were offered.

    Raises:
        Unavailable: The rest was not offered.
    """
    deadline = time.monotonic() + timeout_s
    for letters in DeadLetters.of(folder):
        while time.monotonic() < deadline:
            if not batcher.drain_once(letters):
                break
        else:
            return False
    return True
