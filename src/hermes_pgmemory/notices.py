"""Outages, told to those who would otherwise wonder: the agents, and `status`.

The host gives some agents callbacks that show a line to the user. Each agent hears
of an outage once, and once of its end, from a thread on which nobody waits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, cast
from weakref import WeakSet

from hermes_pgmemory.boundary import fail_soft
from hermes_pgmemory.errors import JournalUnavailable
from hermes_pgmemory.journal import Journal
from hermes_pgmemory.writer import Outage

BEGINS: Final = "Shared memory: new notes wait on this host until they can be stored"

log = logging.getLogger("hermes_pgmemory")

Say = Callable[[str], object]


class Listener:
    """One agent's ear; as long as somebody keeps it."""

    def __init__(self, warn: Say | None, status: Say | None) -> None:
        """Warn by *warn* and reassure by *status*, or both by the one there is."""
        self._warn = warn or status
        self._status = status or warn
        self.knows = False
        """Whether the agent was told that there is an outage."""

    def hear(self, outage: Outage | None, ended: str) -> None:
        """Tell the agent of *outage*, or of its end."""
        self.knows = outage is not None
        if outage is not None:
            _tell_host(self._warn, f"{BEGINS} ({outage.reason})")
        else:
            _tell_host(self._status, f"Shared memory: {ended}")


@fail_soft(None)
def _tell_host(say: Say | None, line: str) -> None:
    if say is not None:
        say(line)


class Notices:
    """Spreads what the writer knows about outages. Thread-safe."""

    def __init__(self, journal: Journal) -> None:
        """Leave a note in *journal*, for other processes to read."""
        self._journal = journal
        self._mutex = threading.Lock()
        self._listeners: WeakSet[Listener] = WeakSet()
        self._outage: Outage | None = None
        self._ended = ""
        self._speaking = False

    def listen(self, warn: object, status: object) -> Listener | None:
        """Return an ear for an agent with these callbacks; None without any."""
        says = [cast("Say", say) if callable(say) else None for say in (warn, status)]
        if not any(says):
            return None
        listener = Listener(*says)
        with self._mutex:
            self._listeners.add(listener)
        self._wake()
        return listener

    def began(self, outage: Outage) -> None:
        """Note that writing stands still, or stands still for another reason."""
        self._note(outage.since, outage.reason)
        with self._mutex:
            self._outage = outage
        self._wake()

    def over(self, ended: str) -> None:
        """Note that writing goes on; *ended* says so."""
        self._note(None)
        with self._mutex:
            self._outage = None
            self._ended = ended
        self._wake()

    def _note(self, since: float | None, reason: str = "") -> None:
        try:
            self._journal.note_outage(since, reason)
        except JournalUnavailable as exc:
            log.debug("status will not know of an outage: %s", exc)

    def _wake(self) -> None:
        with self._mutex:
            if self._speaking or not self._behind():
                return
            self._speaking = True
        try:
            threading.Thread(
                target=self._speak, name="pgmemory-notices", daemon=True
            ).start()
        except RuntimeError as exc:  # no more threads; the next news tries again
            with self._mutex:
                self._speaking = False
            log.warning("agents are not told of an outage now: %s", exc)

    def _behind(self) -> list[Listener]:
        away = self._outage is not None
        return [listener for listener in self._listeners if listener.knows != away]

    def _speak(self) -> None:
        """Tell whoever does not know how things are, until all do."""
        while True:
            with self._mutex:
                todo = self._behind()
                outage, ended = self._outage, self._ended
                if not todo:
                    self._speaking = False
                    return
            for listener in todo:
                listener.hear(outage, ended)
