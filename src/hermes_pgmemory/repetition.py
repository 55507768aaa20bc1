"""Whether one text says anything that another has not said already. Pure.

A repetition is left out of an answer, so the doubt is always in favour of the text: a
number, a name, a date, a negation or any other word in place of another makes it a text
of its own, and so does a word that the earlier one lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

COMPARED_CHARS: Final = 4_000
"""Texts alike up to here are alike: a reader is shown no more of either."""
LEAST_SHARE: Final = 0.9
"""Part of the earlier text's words that a repetition has, at least."""

_WORD: Final = re.compile(r"\w+")
_TURNS_MEANING: Final = frozenset(
    """
    no not nor none never nothing nobody neither without unless except only if t cannot
    nicht kein keine keinen keinem keiner keines nie niemals nichts niemand ohne außer
    ne n pas jamais rien aucun aucune sans ni nunca jamás nada sin ningún ninguna
    tampoco não sem nem nenhum nenhuma non mai senza né nessun nessuno nessuna niet geen
    nooit zonder inte ikke ej ingen aldrig utan uden nie nigdy bez ani není değil yok
    не нет ни никогда без немає
    """.split()  # noqa: SIM905
)
"""Small words that an earlier text may not have more than its repetition."""

Words = tuple[str, ...]
TextT = TypeVar("TextT")


def without_repetitions(
    texts: Iterable[TextT], content: Callable[[TextT], str], told: list[Words]
) -> list[TextT]:
    """Leave out what an earlier text says, too.

    Args:
        texts: Best first.
        content: Returns the text of one of them.
        told: The words of what was kept before; those of what is kept now are added.
    """
    kept: list[TextT] = []
    for text in texts:
        words = words_of(content(text))
        if not any(restates(words, earlier) for earlier in told):
            told.append(words)
            kept.append(text)
    return kept


def words_of(text: str) -> Words:
    """Return the words to compare; of a text without any, the text itself."""
    text = text[:COMPARED_CHARS]
    return tuple(_WORD.findall(text)) or (text.strip(),)


def restates(later: Words, earlier: Words) -> bool:
    """Tell whether *later* has nothing but words of *earlier*, in the same order.

    Case and punctuation do not matter. The earlier text may have a few words more, in
    ten or more, if these are plain ones: in small letters, without a digit, and none
    that turns the meaning round.
    """
    more = len(earlier) - len(later)
    if more < 0 or len(later) < LEAST_SHARE * len(earlier):
        return False
    place = 0
    for word in earlier:
        if place < len(later) and word.casefold() == later[place].casefold():
            place += 1
        elif more and _is_plain(word):
            more -= 1
        else:
            return False
    return True


def _is_plain(word: str) -> bool:
    # Scripts without small letters have no plain words: there, only the same is alike.
    return word.isalpha() and word.islower() and word not in _TURNS_MEANING
