"""Which session brought along the transcript of another, on local disk.

A branch, and what goes on after a compaction, begins with turns that another session
holds. The process that saw it happen knows them from its ledger; one that resumes the
session later is told them as if they were new, and knows from here that they are not.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory.locking import alone
from hermes_pgmemory.models import Subject, Theme

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
        self._fresh = folder / f"{_FILE}.new"
        self._lock = folder / f"{_FILE}.lock"

    def note(
        self,
        session_id: str,
        parent: str,
        at: datetime,
        *,
        theme: Theme,
        subject: Subject | None,
    ) -> None:
        """Remember that *session_id* began *at* this time with all that *parent* holds.

        Both as rows carry them, and whose they are, for `erase`. A disk that takes no
        note costs doubled rows, later.
        """
        line = json.dumps(
            {
                "session": session_id,
                "parent": parent,
                "at": at.timestamp(),
                "theme": theme,
                "subject": subject,
            },
            separators=(",", ":"),  # what is sealed is opened as in the journal
        )
        try:
            with alone(self._lock, patience_s=PATIENCE_S):
                self._append(f"{line}\n")
        except OSError as exc:
            log.warning("cannot write %s: %s", self._path, exc.strerror)

    def texts(self) -> list[str]:
        """Return what is noted, as JSON that tells `theme` and `subject`, if any.

        Raises:
            OSError: The file cannot be read.
        """
        return self._read().splitlines()

    def erase(self, belongs: Callable[[str], bool]) -> int:
        """Forget every note whose text *belongs*; return how many did.

        What a power cut tore tells nobody whose it is: that goes, too.

        Raises:
            OSError: The file cannot be written.
        """
        if not (self._path.exists() or self._fresh.exists()):
            return 0
        with alone(self._lock):
            known = self.texts()
            kept = [line for line in known if _parsed(line) and not belongs(line)]
            if len(kept) < len(known):
                self._replace(f"{line}\n" for line in kept)
            self._fresh.unlink(missing_ok=True)
            return sum(map(belongs, known))

    def of(self, session_id: str) -> Mapping[str, float]:
        """Return whose turns a transcript of *session_id* holds, too.

        By session, and until when that one's turns are among them, in Unix time. A
        file that cannot be read tells of none: the turns themselves matter more.
        """
        try:
            found = map(_parsed, self.texts())
            began = {one[0]: one[1:] for one in found if one}
        except OSError as exc:
            log.warning("cannot read %s: %s", self._path, exc.strerror)
            return {}
        ancestors: dict[str, float] = {}
        until = float("inf")
        while session_id in began and len(ancestors) < MAX_ANCESTORS:
            session_id, at = began[session_id]
            until = min(until, at)
            if session_id in ancestors:
                break
            ancestors[session_id] = until
        return ancestors

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
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(self._fresh, flags, 0o600), "w") as file:
            file.writelines(lines)
        self._fresh.replace(self._path)

    def _read(self) -> str:
        try:
            return self._path.read_text(errors="replace")
        except FileNotFoundError:
            return ""


def _parsed(line: str) -> tuple[str, str, float] | None:
    """Return a session, its parent and since when; None where a line is torn."""
    try:
        told: Any = json.loads(line)
        return str(told["session"]), str(told["parent"]), float(told["at"])
    except (ValueError, TypeError, KeyError):
        return None
