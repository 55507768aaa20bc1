"""The thread that puts one journal on the disk, where no hook waits for it."""

from __future__ import annotations

import logging
import threading
from typing import Final

from hermes_pgmemory import telemetry
from hermes_pgmemory.errors import JournalUnavailable
from hermes_pgmemory.journal import Journal

SYNC_AFTER_S: Final = 0.5
"""Seconds after the first write, not at once: a turn's hooks come in a burst, and
would wait for the disk."""

log = logging.getLogger("hermes_pgmemory")


class Syncer:
    """Puts a journal on the disk, and this process's numbers beside it."""

    def __init__(self, journal: Journal) -> None:
        """Sync *journal*, once started; its owner closes it after `join`."""
        self._journal = journal
        self._unsynced = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def started(self) -> bool:
        """Whether there is a thread, or was one."""
        return self._thread is not None

    def start(self) -> None:
        """Start the thread; to be called once."""
        self._thread = threading.Thread(
            target=self._run, name="pgmemory-sync", daemon=True
        )
        self._thread.start()

    def wake(self) -> None:
        """Say that the journal holds something new."""
        if not self._unsynced.is_set():
            self._unsynced.set()

    def end(self) -> None:
        """Let the thread end, after what it is at."""
        self._ending.set()
        self._unsynced.set()

    def join(self, timeout_s: float) -> None:
        """Wait up to *timeout_s* for the end of the thread, if there is one."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        warned = False
        while not self._ending.is_set():
            telemetry.publish()
            if not self._unsynced.wait(telemetry.EVERY_S):
                continue
            self._ending.wait(SYNC_AFTER_S)
            self._unsynced.clear()
            try:
                self._journal.sync()
                warned = False
            except JournalUnavailable as exc:
                if not warned:
                    log.warning("%s", exc)
                warned = True
                self._unsynced.set()
