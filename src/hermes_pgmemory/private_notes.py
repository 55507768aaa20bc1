"""Which entries of a home's memory files were written in private chats.

All agents of a home write to the same MEMORY.md and USER.md, those of direct messages
too. What a contact said must not be imported into the home's own theme, even where
its row has not arrived, was refused, or came by another home. So a hash of each such
entry is kept on local disk, 0600, before anything else happens to it.

A write that waits for approval reaches the file later and without a hook. So what a
private chat asked the memory tool to write counts as its note, too.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from hermes_pgmemory.foreign_json import parsed
from hermes_pgmemory.text import split_entries

_FILE: Final = "private-notes"
_DIGEST: Final = re.compile(rb"[0-9a-f]{64}")


class PrivateNotes:
    """The hashes of one home; shared with its other processes through the file."""

    def __init__(self, folder: Path) -> None:
        """Use a file in *folder*, the home's state folder; no I/O."""
        self._path = folder / _FILE
        self._mutex = threading.Lock()
        self._own: set[str] = set()

    def add(self, entry: str) -> None:
        """Remember *entry* as private, as the host wrote it and as its file shows it.

        An entry that holds the file's own delimiter is read as several.
        """
        parts, _ = split_entries(entry.encode("utf-8", "surrogatepass"))
        digests = dict.fromkeys(map(_digest, (entry, *parts)))
        with self._mutex:
            # `forget` may have erased it since; few notes are written twice.
            known = self._known() if self._own.issuperset(digests) else set[str]()
            news = [digest for digest in digests if digest not in known]
            if not news:
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            fd = os.open(self._path, flags, 0o600)
            try:
                os.write(fd, "".join(f"{digest}\n" for digest in news).encode())
            finally:
                os.close(fd)
            self._own.update(news)

    def erase(self, digests: Collection[str]) -> int:
        """Overwrite the hashes of entries that are gone; return how many there were.

        In place: other processes append meanwhile.
        """
        try:
            file = self._path.open("r+b", buffering=0)
        except FileNotFoundError:
            return 0
        with self._mutex, file:
            places = [
                (found.start(), found.group())
                for found in _DIGEST.finditer(file.read())
                if found.group().decode() in digests
            ]
            for place, digest in places:
                os.pwrite(file.fileno(), b"0" * len(digest), place)
            return len(places)

    def without(self, entries: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of *entries* that no private chat wrote."""
        known = self._known()
        return tuple(entry for entry in entries if _digest(entry) not in known)

    def _known(self) -> set[str]:
        try:
            return set(self._path.read_text().split())
        except FileNotFoundError:
            return set()


def asked_for(messages: Iterable[object]) -> Iterator[str]:
    """Yield each text that a transcript's calls of the memory tool were to write."""
    for call in _calls(messages):
        try:
            arguments = parsed(str(call.get("arguments")))
        except ValueError:
            continue  # no JSON that any tool is called with
        for part in (arguments, *_items(arguments, "operations")):
            for name in ("content", "new_text"):
                text = _get(part, name)
                if isinstance(text, str) and text.strip():
                    yield text


def _calls(messages: Iterable[object]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        for call in _items(message, "tool_calls"):
            function = _get(call, "function")
            if _get(function, "name") == "memory":
                yield cast("Mapping[str, Any]", function)


def _items(value: object, name: str) -> list[object]:
    items = _get(value, name)
    return cast("list[object]", items) if isinstance(items, list) else []


def _get(value: object, name: str) -> object:
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return None


def _digest(entry: str) -> str:
    text = entry.strip().encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()
