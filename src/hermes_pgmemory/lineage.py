"""Which session brought along the transcript of another, on local disk.

A branch, and what goes on after a compaction, begins with turns that another session
holds. The process that saw it happen knows them from its ledger; one that resumes the
session later is told them as if they were new, and knows from here that they are not.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from hermes_pgmemory.locking import alone

_FILE: Final = "lineage"
REMEMBERED: Final = 1024
"""Switches; the oldest are forgotten."""
MAX_ANCESTORS: Final = 16
PATIENCE_S: Final = 1.0
"""Seconds that a hook waits for another process: the loop matters more."""

log = logging.getLogger("hermes_pgmemory")


class Lineage:
    """The switches of one home; shared with its other processes through the file."""

    def __init__(self, folder: Path) -> None:
        """Use a file in *folder*, the home's state folder; no I/O."""
        self._path = folder / _FILE
        self._lock = folder / f"{_FILE}.lock"

    def note(self, session_id: str, parent: str, at: datetime) -> None:
        """Remember that *session_id* began *at* this time with all that *parent* holds.

        Both as rows carry them. A disk that takes no note costs doubled rows, later.
        """
        line = json.dumps([session_id, parent, at.timestamp()]) + "\n"
        try:
            with alone(self._lock, patience_s=PATIENCE_S):
                self._append(line)
        except OSError as exc:
            log.warning("cannot write %s: %s", self._path, exc.strerror)

    def of(self, session_id: str) -> Mapping[str, float]:
        """Return whose turns a transcript of *session_id* holds, too.

        By session, and until when that one's turns are among them, in Unix time. A
        file that cannot be read tells of none: the turns themselves matter more.
        """
        try:
            lines = self._lines()
        except OSError as exc:
            log.warning("cannot read %s: %s", self._path, exc.strerror)
            return {}
        began = {name: (parent, at) for name, parent, at in lines}
        found: dict[str, float] = {}
        until = float("inf")
        while session_id in began and len(found) < MAX_ANCESTORS:
            session_id, at = began[session_id]
            until = min(until, at)
            if session_id in found:
                break
            found[session_id] = until
        return found

    def _append(self, line: str) -> None:
        known = self._read()
        lines = known.splitlines(keepends=True)
        if known and not known.endswith("\n"):
            line = f"\n{line}"  # or what a power cut tore would swallow it
        if len(lines) < REMEMBERED:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            with os.fdopen(os.open(self._path, flags, 0o600), "w") as file:
                file.write(line)
            return
        self._replace([*lines[-REMEMBERED // 2 :], line])

    def _replace(self, lines: Iterable[str]) -> None:
        """Write *lines* in the place of all others; what a kill left is reused."""
        fresh = self._path.with_name(f"{_FILE}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(fresh, flags, 0o600), "w") as file:
            file.writelines(lines)
        fresh.replace(self._path)

    def _lines(self) -> list[tuple[str, str, float]]:
        found: list[tuple[str, str, float]] = []
        for line in self._read().splitlines():
            try:
                name, parent, at = json.loads(line)
                found.append((str(name), str(parent), float(at)))
            except (ValueError, TypeError):
                continue  # torn by a power cut
        return found

    def _read(self) -> str:
        try:
            return self._path.read_text(errors="replace")
        except FileNotFoundError:
            return ""
