"""Taking over what dead processes left in a journal's folder."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from pathlib import Path

from hermes_pgmemory.errors import JournalUnavailable
from hermes_pgmemory.journal.queue import Journal
from hermes_pgmemory.journal.slots import adoption, slots_of, try_lock, unlock

log = logging.getLogger("hermes_pgmemory")


def orphans(
    folder: Path,
    *,
    quota_bytes: int,
    wait: bool = True,
    give_up: threading.Event | None = None,
) -> Generator[Journal]:
    """Yield the slots of dead processes that hold writes; the caller drains them.

    They come in the order in which those processes started, and to one caller at a
    time, others wait: the order of a theme's writes must survive. Without *wait* they
    get none. Each is claimed when yielded and given back afterwards; an emptied one
    without dead letters is removed. A damaged one is warned about and left alone.

    Raises:
        JournalUnavailable: *give_up* was set while another process was at it.
    """
    with adoption(folder, give_up or threading.Event(), wait=wait) as mine:
        for slot in slots_of(folder) if mine else ():
            if (lock := try_lock(slot)) is None:
                continue
            try:
                journal = Journal(slot, lock, quota_bytes=quota_bytes)
            except JournalUnavailable as exc:
                unlock(lock)
                log.warning("%s is left alone: %s", slot.name, exc)
                continue
            try:
                if journal.depth:
                    yield journal
            finally:
                if journal.depth or journal.has_dead_letters:
                    journal.close()
                else:
                    journal.retire()
