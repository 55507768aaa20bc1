"""The words of a question, cut as words.sql cuts those of a stored text.

The letters are those of words.sql; PostgreSQL makes lexemes of what comes out here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes_pgmemory.store.queries import FRAGMENTS

LONGEST: Final = 20_000
"""Characters of a question whose words are searched for."""

_UNSPACED: Final = FRAGMENTS["unspaced"]
_RUN: Final = re.compile(f"[{_UNSPACED}]+")
_PAIR: Final = re.compile(f"[{_UNSPACED}]{{2}}")
_FIRST: Final = re.compile(f"(?<![{_UNSPACED}])[{_UNSPACED}]")
_ALONE: Final = re.compile(f"(?<![{_UNSPACED}])[{_UNSPACED}](?![{_UNSPACED}])")
_MARKS: Final = re.compile(f"[{FRAGMENTS['marks']}]+")
_ACCENTED: Final = re.compile(f"[{FRAGMENTS['accented']}]")
_ACCENTS: Final = re.compile(f"([A-Za-z])[{FRAGMENTS['accents']}]+")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, cut into what PostgreSQL takes for words."""

    text: str
    """What is left for its parser: words with spaces between them."""
    runs: Sequence[tuple[str, int, str]]
    """Each pair of letters that stand together without a space, its place, and the
    ending of its query. A letter alone asks for whatever begins with it."""

    def parameters(self) -> dict[str, Any]:
        """Return what the statements of a search take of it."""
        return {
            "text": self.text,
            "runs": [letters for letters, _, _ in self.runs],
            "places": [place for _, place, _ in self.runs],
            "endings": [ending for _, _, ending in self.runs],
        }


def cut(question: str) -> Asked:
    """Cut *question* into words; of any length, in any script."""
    # A prompt may hold what PostgreSQL cannot, and therefore has no row of.
    told = question[:LONGEST].encode(errors="replace").decode().replace("\0", " ")
    if told.isascii():
        return Asked(told, ())
    told = _plain(told)
    shifted = _FIRST.sub("", told)
    return Asked(
        _RUN.sub(" ", told),
        [
            *((pair, 2 * n, "") for n, pair in enumerate(_PAIR.findall(told), 1)),
            *(
                (pair, 2 * n + 1, "")
                for n, pair in enumerate(_PAIR.findall(shifted), 1)
            ),
            *((one, 2 * n, ":*") for n, one in enumerate(_ALONE.findall(told), 1)),
        ],
    )


def _plain(text: str) -> str:
    """Return *text* without marks, and its Latin letters without accents."""
    spaced = _MARKS.sub(" ", text)
    if not _ACCENTED.search(text):
        return spaced
    apart = unicodedata.normalize("NFD", spaced)
    return unicodedata.normalize("NFC", _ACCENTS.sub(r"\1", apart))
