"""A session key as text: tidied, folded, shortened. Knows nothing of chats."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

MAX_THEME_CHARS: Final = 128

_ESCAPED_BYTE: Final = re.compile("[\udca0-\udcff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PERCENT_RUN: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_PERCENT_DEEP: Final = re.compile(r"%(?:25)+")
_NOT_UTF_8: Final = re.compile("[\udc80-\udcff]")
_ROUNDS: Final = 8
"""More than any key needs that was not made to need more."""


def tidy(raw: object) -> str:
    """Return *raw* as printable UTF-8 text on one line, case kept; "" if not text.

    Percent encoding is undone, also a repeated one: a client may write `%40` for the @
    of an address. Bytes that are no UTF-8 stay encoded. A header's bytes that were no
    UTF-8 arrive as lone surrogates U+DCA0 to U+DCFF and become the Latin-1 letters they
    most likely were; other lone surrogates become U+FFFD. Compatibility forms
    (full-width letters, digits and colons) become plain ones, white space collapses,
    invisible characters go.
    """
    if not isinstance(raw, str):
        return ""
    if raw.isascii() and "%" not in raw:
        return _one_line(raw)
    joined = raw.encode("utf-16-le", "surrogatepass").decode(
        "utf-16-le", "surrogatepass"
    )
    text = _ESCAPED_BYTE.sub(lambda m: chr(ord(m[0]) - 0xDC00), joined)
    return _settle(_SURROGATE.sub("\ufffd", text), fold_case=False)


def fold(raw: object) -> str:
    """Return `tidy` of *raw*, case-folded; folding twice changes nothing."""
    text = tidy(raw)
    return text.lower() if text.isascii() else _settle(text, fold_case=True)


def shorten(folded: str) -> str:
    """Return a theme of at most `MAX_THEME_CHARS` characters for a folded key.

    A longer key keeps its beginning and gets a fingerprint of the whole, in letters
    only, so that two long keys stay apart and no digits are invented.
    """
    if len(folded) <= MAX_THEME_CHARS:
        return folded
    digest = hashlib.blake2b(folded.encode(), digest_size=10).hexdigest()
    letters = "".join(chr(ord("a") + int(digit, 16)) for digit in digest)
    head = folded[: MAX_THEME_CHARS - len(letters) - 1].rstrip()
    return f"{head}~{letters}"


_DATE: Final = re.compile(
    r"(?<![0-9])(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])(?![0-9])"
)


def has_long_number(text: str) -> bool:
    """Tell whether *text* holds seven digits, of any script, with no letter between.

    Separators do not count, so that `+1 (555) 010-0123` is one number; neither do
    field separators, nor marks that combine with a digit. A date, as in
    `report-2026-11-30`, is no number.
    """
    digits = 0
    for char in _DATE.sub("date", text):
        if char.isdigit():
            digits += 1
            if digits == 7:
                return True
        elif char.isalpha():
            digits = 0
    return False


def _one_line(text: str) -> str:
    if not text.isprintable():
        text = "".join(
            char
            for char in (" " if char.isspace() else char for char in text)
            if char.isprintable()
        )
    return " ".join(text.split())


def _settle(text: str, *, fold_case: bool) -> str:
    # Composing, folding, decoding and dropping feed each other, so repeat until
    # stable. Each round is idempotent on all but a handful of characters; two rounds
    # are usual.
    for _ in range(_ROUNDS):
        folded = text.casefold() if fold_case else text
        after = _one_line(_unescaped(unicodedata.normalize("NFKC", folded)))
        if after == text:
            break
        text = after
    return text


def _unescaped(text: str) -> str:
    if "%" not in text:
        return text
    return _PERCENT_RUN.sub(_decoded, _PERCENT_DEEP.sub("%", text))


def _decoded(run: re.Match[str]) -> str:
    raw = bytes.fromhex(run[0].replace("%", ""))
    text = raw.decode("utf-8", "surrogateescape")
    return _NOT_UTF_8.sub(lambda m: f"%{ord(m[0]) - 0xDC00:02x}", text)
