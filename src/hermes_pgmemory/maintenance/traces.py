"""Recognising texts that should be gone, in anything, without keeping them.

Of each text a piece of its beginning is kept, and a hash of the whole. Where the piece
is found the whole is compared, so one pass over what is searched finds any number of
texts, and what merely begins alike is no trace.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from json.encoder import encode_basestring_ascii as quoted
from typing import Final

from hermes_pgmemory.text import split_entries

PIECE: Final = 24
"""Characters. A shorter text is found only where it is all of a value."""
SHORTEST: Final = 12
"""Bytes of a text that is looked for in raw files."""
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
"""One of JSON's."""


class Traces:
    """What is left of texts, once they are gone."""

    def __init__(self) -> None:
        """Know no text yet."""
        self.digests: set[str] = set()
        """Of each text."""
        self.notes: set[str] = set()
        """Of each text and of what a memory file shows of it, as `private_notes` has
        them."""
        self._begins: dict[str, set[tuple[int, str]]] = {}
        self._raw: set[bytes] = set()

    def add(self, text: str) -> None:
        """Recognise *text* from now on; blank ones are nothing."""
        text = text.strip()
        if not text or (digest := _digest(text)) in self.digests:
            return
        self.digests.add(digest)
        parts, _ = split_entries(text.encode("utf-8", "surrogatepass"))
        self.notes |= {digest, *map(_digest, parts)}
        if len(text) >= PIECE:
            begin = text[:PIECE]
            self._begins.setdefault(begin, set()).add((len(text), digest))
        self._raw.update(_pieces(quoted(text)[1:-1].encode()))

    @staticmethod
    def digests_of(texts: Iterable[str]) -> set[str]:
        """Return what `digests` holds of these texts."""
        return {_digest(text.strip()) for text in texts}

    def in_value(self, value: str) -> bool:
        """Tell whether a text stands in *value*, or in a string of the JSON it is."""
        return self._in_text(value) or any(map(self._in_text, _strings(value)))

    def in_bytes(self, data: bytes, living: Iterable[str]) -> bool:
        """Tell whether a piece of a text lies in *data*, a file of JSON records.

        What the *living* records of the file hold, too, is theirs.
        """
        found = self._pieces_in(data)
        if found:
            found -= self._pieces_in("\n".join(living).encode())
        return bool(found)

    def _in_text(self, text: str) -> bool:
        if _digest(text.strip()) in self.digests:
            return True
        begins = self._begins
        for place in range(len(text) - PIECE + 1):
            for length, digest in begins.get(text[place : place + PIECE], ()):
                if _digest(text[place : place + length]) == digest:
                    return True
        return False

    def _pieces_in(self, data: bytes) -> set[bytes]:
        sizes = {len(piece) for piece in self._raw}
        return {
            data[place : place + size]
            for size in sizes
            for place in range(len(data) - size + 1)
            if data[place : place + size] in self._raw
        }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _pieces(raw: bytes) -> Iterator[bytes]:
    """Yield the beginning, the middle and the end: a page's border cuts but one."""
    if len(raw) <= PIECE:
        if len(raw) >= SHORTEST:
            yield raw
        return
    for place in (0, (len(raw) - PIECE) // 2, len(raw) - PIECE):
        yield raw[place : place + PIECE]


def _strings(value: str) -> Iterator[str]:
    if value[:1] not in ("{", "["):
        return
    # Not parsed: however deep a string lies, and whatever is wrong around it.
    for found in _STRING.finditer(value):
        with suppress(ValueError):
            yield json.loads(found[0], strict=False)
