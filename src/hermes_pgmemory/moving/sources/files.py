"""MEMORY.md and USER.md of a home and of all its profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.file_ids import ID_FILE, file_ids
from hermes_pgmemory.hygiene import MAX_ENTRY_CHARS, storable
from hermes_pgmemory.memory_files import FILES
from hermes_pgmemory.models import AddEntry, Target, Theme
from hermes_pgmemory.moving.homes import Found, homes
from hermes_pgmemory.moving.values import EMPTY, Aim, Item, Skipped
from hermes_pgmemory.private_notes import PrivateNotes
from hermes_pgmemory.store.moved import MovedEntry
from hermes_pgmemory.text import split_entries

PRIVATE: Final = "written in a private chat"
UNREADABLE: Final = "not UTF-8"


def read(paths: Sequence[Path], aim: Aim) -> Iterator[Item]:
    """Yield the entries of every memory file below *paths*."""
    found = False
    for home in homes(paths, aim):
        theme = home.theme(aim)
        for target, name in FILES.items():
            file = home.paths.memories / name
            if file.is_file():
                found = True
                yield from _entries(home, file, target, theme)
    if not found:
        raise BadRequest("no memories/MEMORY.md and no profiles/*/memories/MEMORY.md")


def _entries(home: Found, file: Path, target: Target, theme: Theme) -> Iterator[Item]:
    entries, unreadable = split_entries(file.read_bytes())
    shared = PrivateNotes(home.paths.state).without(tuple(entries))
    at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    source = _source(home, file.name)
    for _ in range(unreadable):
        yield Skipped(theme, "entries", UNREADABLE)
    for _ in range(len(entries) - len(shared)):
        yield Skipped(theme, "entries", PRIVATE)
    for one in shared:
        text = storable(one, max_chars=MAX_ENTRY_CHARS)
        if not text:
            yield Skipped(theme, "entries", EMPTY)
            continue
        add = AddEntry(
            theme=theme,
            target=target,
            content=text,
            at=at,
            source=source,
            metadata={"write_origin": "file_import"},
        )
        files = (source,) if source else ()
        yield MovedEntry(write=add, updated_at=at, files=files)


def _source(home: Found, name: str) -> str | None:
    """Return what rows call the file; a home that no agent of ours knows has no id."""
    if not (home.paths.state / ID_FILE).exists():
        return None
    return file_ids(home.paths, name)[0]
