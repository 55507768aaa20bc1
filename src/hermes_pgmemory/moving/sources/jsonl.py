"""Our own export, taken as it is but for secrets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.key_text import MAX_THEME_CHARS
from hermes_pgmemory.maintenance import label
from hermes_pgmemory.moving import keys, lines
from hermes_pgmemory.moving.header import Header
from hermes_pgmemory.moving.values import Aim, Item, Skipped, kind_of
from hermes_pgmemory.redact import redact
from hermes_pgmemory.store.moved import (
    Moved,
    MovedAgent,
    MovedEdge,
    MovedEntry,
    MovedTurn,
)

CUT_OFF: Final = "the file was cut off: export it again"
MAX_LINE_CHARS: Final = 16 << 20
"""Of one row, many times what the longest that an agent wrote may come to."""
DAMAGED: Final = "a damaged line"
OTHERS_KEY: Final = (
    "private rows, hashed with another database's key: see --key-file of export"
)
NO_THEME: Final = "no theme's name: a contact's key, or none at all"


def read(paths: Sequence[Path], aim: Aim) -> Iterator[Item]:
    """Yield the rows of every file, in the order of its lines."""
    for path in paths:
        if not path.is_file():
            raise BadRequest(f"{path} is no file")
        yield from _file(path, aim)


def _file(path: Path, aim: Aim) -> Iterator[Item]:
    with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        header = Header.of(file.readline(MAX_LINE_CHARS))
        same_key = header.subject_key == keys.fingerprint(aim.key)
        same_model = header.model is not None and header.model == aim.model
        told, said = 0, None
        for line in _lines(file):
            try:
                row = lines.decode(line)
            except ValueError:
                yield Skipped("", "rows", DAMAGED)
                told += 1
                continue
            if isinstance(row, int):
                said = row
                break
            told += 1
            yield arriving(row if same_model else bare(row), same_key=same_key)
        if said != told:
            yield Skipped("", "rows", CUT_OFF)


def _lines(file: TextIO) -> Iterator[str]:
    """Yield the lines; a blank one for each that nobody could hold in memory."""
    while line := file.readline(MAX_LINE_CHARS):
        if line.endswith("\n") or len(line) < MAX_LINE_CHARS:
            yield line
            continue
        while line and not line.endswith("\n"):
            line = file.readline(MAX_LINE_CHARS)
        yield ""


def bare(row: Moved) -> Moved:
    """Return *row* without its vector: another model's is compared with nothing."""
    if isinstance(row, MovedEntry) and row.vector:
        return replace(row, vector=None)
    if isinstance(row, MovedTurn) and row.vector:
        return replace(row, vector=None, text_hash=None)
    return row


def arriving(row: Moved, *, same_key: bool) -> Item:
    """Return *row* as it may be kept here, or why not.

    Args:
        row: As another database of ours held it.
        same_key: Whether that one makes subjects with the same key.
    """
    write = row.write
    theme = write.theme
    if not 0 < len(theme) <= MAX_THEME_CHARS or label(theme) != theme:
        return Skipped("", kind_of(row), NO_THEME)
    if isinstance(row, MovedAgent):
        return row
    if row.write.subject is not None and not same_key:
        return Skipped(theme, kind_of(row), OTHERS_KEY)
    return _redacted(row)


def _redacted(row: MovedEntry | MovedTurn | MovedEdge) -> Moved:
    if isinstance(row, MovedEdge):
        task = redact(row.write.task)
        return replace(row, write=replace(row.write, task=task))
    content = redact(row.write.content)
    if content == row.write.content:
        return row
    # Its vector and its key stand for what was there before.
    if isinstance(row, MovedEntry):
        return replace(row, write=replace(row.write, content=content), vector=None)
    return MovedTurn(write=replace(row.write, content=content))
