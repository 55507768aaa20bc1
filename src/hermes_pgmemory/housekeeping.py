"""What is done beside a process's own writes.

Taking over what dead processes left, following files, trying dead letters again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from hermes_pgmemory import memory_files
from hermes_pgmemory.batcher import Batcher
from hermes_pgmemory.codec import ENTRY_RECORDS
from hermes_pgmemory.journal import DeadLetters, orphans, waiting
from hermes_pgmemory.memory_files import MemoryFile
from hermes_pgmemory.models import FileVerdict, Target, Theme, Write
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.private_notes import PrivateNotes
from hermes_pgmemory.store import Store

ADOPT_EVERY_S: Final = 60.0
TIMEOUT_S: Final = 5.0

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
