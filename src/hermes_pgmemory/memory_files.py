"""MEMORY.md and USER.md: what a session's prompt shows, and what is to import.

The files belong to a home (a profile), while themes come from request headers: many
themes may write to one file. So an entry is imported into the *profile's* theme, and
only if no theme holds it from this file already.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hermes_pgmemory.hygiene import MAX_ENTRY_CHARS, storable
from hermes_pgmemory.models import AddEntry, Target, Theme
from hermes_pgmemory.paths import file_id
from hermes_pgmemory.text import split_entries

FILES: Final[Mapping[Target, str]] = {
    Target.MEMORY: "MEMORY.md",
    Target.USER: "USER.md",
}
SETTLE_S: Final = 2.0
"""A file changed more recently than this may hold entries whose own write is still
on its way from another process."""

log = logging.getLogger("hermes_pgmemory")

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """One of the two files, as it was when read."""

    target: Target
    source: str
    stamp: Stamp
    """Modification time in ns, size, inode: changes when the file does."""
    entries: tuple[str, ...]

    @property
    def age_s(self) -> float:
        """Seconds since the last change."""
        return time.time() - self.stamp[0] / 1e9


def sources(folder: Path) -> dict[Target, str]:
    """Name both files of *folder*; see `paths.file_id`."""
    return {target: file_id(folder / name) for target, name in FILES.items()}


def stamp_of(path: Path) -> Stamp | None:
    """Return what changes when *path* does; None if it is not there."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def read(folder: Path, target: Target) -> MemoryFile | None:
    """Read one file; None if it is not there or cannot be read."""
    path = folder / FILES[target]
    stamp = stamp_of(path)
    if stamp is None:
        return None
    try:
        raw = path.read_bytes()
    except OSError as exc:
        log.warning("cannot read %s: %s", path.name, exc.strerror)
        return None
    entries, unreadable = split_entries(raw)
    if unreadable:
        log.warning(
            "%s holds %d entries that are not UTF-8; they were left out",
            path.name,
            unreadable,
        )
    return MemoryFile(target, file_id(path), stamp, tuple(entries))


def shown(folder: Path) -> frozenset[str]:
    """Return every entry a prompt built now shows, as it would be stored."""
    files = (read(folder, target) for target in FILES)
    return frozenset(
        _stored(entry) for file in files if file is not None for entry in file.entries
    )


def additions(
    file: MemoryFile, known: Iterable[str], *, theme: Theme
) -> list[AddEntry]:
    """Return writes for the entries of *file* that are not *known*."""
    have = set(known)
    at = datetime.fromtimestamp(file.stamp[0] / 1e9, UTC)
    return [
        AddEntry(
            theme=theme,
            target=file.target,
            content=text,
            at=at,
            source=file.source,
            metadata={"write_origin": "file_import"},
        )
        for text in dict.fromkeys(map(_stored, file.entries))
        if text and text not in have
    ]


def _stored(entry: str) -> str:
    """Return *entry* as `capture.entry` would store it."""
    return storable(entry, max_chars=MAX_ENTRY_CHARS)
