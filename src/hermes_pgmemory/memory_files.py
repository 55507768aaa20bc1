"""MEMORY.md and USER.md: what a session's prompt shows, and what the rows must follow.

The files belong to a home (a profile), while themes come from request headers: many
themes may write to one file. So an entry is imported into the *profile's* theme, and
only if no theme holds it from this file already; and a row that is in its file no more
is retired, whichever theme it is in.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hermes_pgmemory.file_ids import file_ids
from hermes_pgmemory.hygiene import MAX_ENTRY_CHARS, storable
from hermes_pgmemory.models import AddEntry, FileRow, FileVerdict, Target, Theme
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.text import split_entries

FILES: Final[Mapping[Target, str]] = {
    Target.MEMORY: "MEMORY.md",
    Target.USER: "USER.md",
}
SETTLE_S: Final = 2.0
"""A file changed more recently than this may hold entries of which the host has not
told us yet: it writes the file first."""
SEVERAL: Final = 3
"""From so many entries on, losing more than half at once is doubted."""

Stamp = tuple[int, int, int]
"""Modification time in ns, size, inode: changes when the file does."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """One of the two files, as it was when read."""

    target: Target
    ids: Sequence[str]
    """What the database calls it, then what it calls its ancestors."""
    stamp: Stamp | None
    """None if there is no such file."""
    entries: tuple[str, ...]
    unreadable: int = 0
    """How many further entries are not UTF-8."""

    @property
    def age_s(self) -> float:
        """Seconds since the last change; endless if the file is not there."""
        return time.time() - self.stamp[0] / 1e9 if self.stamp else float("inf")

    @property
    def changed_at(self) -> datetime:
        """When it last changed; now, if it is not there."""
        if self.stamp is None:
            return datetime.now(UTC)
        return datetime.fromtimestamp(self.stamp[0] / 1e9, UTC)

    @property
    def texts(self) -> list[str]:
        """Its entries as they would be stored, each once."""
        return [text for text in dict.fromkeys(map(_stored, self.entries)) if text]


def sources(paths: HomePaths) -> dict[Target, str]:
    """Name both files of a home, as rows do; see `file_ids`."""
    return {target: file_ids(paths, name)[0] for target, name in FILES.items()}


def stamp_of(path: Path) -> Stamp | None:
    """Return what changes when *path* does; None if it is not there."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def read(paths: HomePaths, target: Target) -> MemoryFile:
    """Read one file; one that is not there has no entries.

    Raises:
        OSError: It is there, but cannot be read.
    """
    name = FILES[target]
    # The stamp first: a change between the two makes it stale, never the entries.
    stamp = stamp_of(paths.memories / name)
    raw = b"" if stamp is None else (paths.memories / name).read_bytes()
    entries, unreadable = split_entries(raw)
    ids = file_ids(paths, name)
    return MemoryFile(target, ids, stamp, tuple(entries), unreadable)


def shown(paths: HomePaths) -> frozenset[str]:
    """Return every entry a prompt built now shows, as it would be stored."""
    texts: set[str] = set()
    for target in FILES:
        try:
            texts.update(read(paths, target).texts)
        except OSError:
            continue  # the prompt does not show it either
    return frozenset(texts)


def compare(
    file: MemoryFile,
    rows: Sequence[FileRow],
    *,
    confirmed: bool = False,
    replaces: bool = False,
) -> FileVerdict:
    """Return what *file* says about its *rows*.

    Where it lost most of its entries, all of them, or holds some that cannot be read,
    the loss is doubtful, unless somebody *confirmed* it. Where the file *replaces* its
    ancestors, what only they held is gone, too.
    """
    texts = set(file.texts)
    held = [row for row in rows if row.known and not row.missing and not row.retired]
    gone = [row for row in held if not _holds(texts, row)]
    present = [
        row
        for row in rows
        if _holds(texts, row) and (row.missing or row.retired or not row.known)
    ]
    if confirmed:
        ours = [row for row in rows if row.known or replaces]
        lost = [row for row in ours if not row.retired and not _holds(texts, row)]
        return FileVerdict(present=present, gone=lost)
    most = len(held) >= SEVERAL and 2 * len(gone) > len(held)
    if most or not texts or file.unreadable:
        return FileVerdict(present=present, doubtful=gone)
    return FileVerdict(present=present, gone=gone)


def additions(
    file: MemoryFile, rows: Iterable[FileRow], *, theme: Theme
) -> list[AddEntry]:
    """Return writes for the entries of *file* that no row of *rows* holds."""
    have = {part for row in rows for part in _parts(row)}
    return [
        AddEntry(
            theme=theme,
            target=file.target,
            content=text,
            at=file.changed_at,
            source=file.ids[0],
            metadata={"write_origin": "file_import"},
        )
        for text in file.texts
        if text not in have
    ]


def _holds(texts: set[str], row: FileRow) -> bool:
    return texts.issuperset(_parts(row))


def _parts(row: FileRow) -> list[str]:
    """Return what a file shows of a row: a note may hold the host's own delimiter."""
    return split_entries(row.content.encode())[0]


def _stored(entry: str) -> str:
    """Return *entry* as `capture.entry` would store it."""
    return storable(entry, max_chars=MAX_ENTRY_CHARS)
