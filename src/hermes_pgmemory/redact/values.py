"""What a secret's value looks like, and what stands where one was."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_JUDGED_CHARS: Final = 256
"""So much of a value is looked at; more could not change the judgement."""

_LEAST_CHARS: Final = {"password": 4, "word": 4}
"""Shorter values are nobody's secret; other kinds need six."""
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
_SIGN: Final = re.compile(r"[!@#$%^+=~\\]|\d")

_PLACEHOLDER: Final = re.compile(
    r"""
      (.)\1*                                      # *** or xxxx or ...
    | \[redacted.* | <[a-z_][\w\ .-]*>? | \{\{?[\w\ .-]*\}{1,2} | [\[({]+[\])}]*
    | \$[\[({].* | (?-i:\$[A-Z_][A-Z0-9_]*) | %(?:\(\w*\))?[sdr] | %\w+%
    | (?:.*[-_\ ])?your[-_\ ].* | .*[-_]here
    | (?:change|replace)[-_]?(?:me|this) | example | sample | dummy | fake | test
    | (?-i:[A-Z][A-Z0-9_]*_(?:PASSWORD|SECRET|TOKEN|KEY))   # a variable's name
    | data:.* | [a-z][a-z0-9+.-]*://.*            # a URL keeps its own secrets
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_MEASURE: Final = re.compile(
    r"""
      (?:base|sha|md|aes|rsa|utf|oauth|[hre]s|ed|pbkdf|argon|scrypt|tls|ipv|v)
      -?\d+[a-z]*(?:-[a-z]+)*
    | \d{1,3}[-/\u2013]\d{1,3}
    | \d+[-.]?(?:bits?|chars?|characters?|bytes?|days?|hours?|minutes?|seconds?
      |digits?|letters?|words?|tokens?|ms|[smhdwykx%]|kb|mb|st|nd|rd|th)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CODE: Final = re.compile(
    r"""
      \(*[A-Za-z_][A-Za-z_.]{2,}\(.* | [A-Za-z_]\w*(?:\.\w+)+\(.*    # a call
    | (?-i:[a-z_][a-z0-9_]{3,}\(.*) | \(+[A-Za-z_][\w.]*
    | [A-Za-z_][\w.]*\[["']?-?\w+["']?\]? | [A-Za-z_]+(?:\.[A-Za-z_]+)+   # item, member
    | [rbfu]{1,2}["'].* | [\[({]+["'].* | \{[A-Za-z_].* | \[\^.*   # literals, patterns
    | (?:self|this|os|sys|process|config|settings|env|args|opts|options|request|req
      |user|data|params|ctx|cfg|secrets|form|body|credentials|vault)\..*
    | (?=\D{1,60}\Z)[\w.$]*(?:pass|secret|token|key|pwd|cred)\w*   # another variable
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_WORDS: Final = re.compile(r"[a-z]{1,20}(?:[-_ ][a-z]{1,20}){0,3}|[A-Z]+(?:_[A-Z]+)+")
_PATH: Final = re.compile(r"(?:~|\.{1,2})?(?:/[\w.-]+){2,}/?")
_DESCRIBING: Final = frozenset(
    """
    none null nil undefined true false yes no on off required optional string str
    text bytes int integer number any object array hidden masked redacted encrypted
    hashed plaintext unknown missing invalid valid expired empty blank unset set reset
    here there below above everywhere changed wrong correct incorrect right bad good
    weak strong short long simple complex complicated easy hard safe secure insecure
    unsafe same different unique needed mandatory default public private secret gone
    lost broken stale old new fine okay ready done todo tbd rejected accepted denied
    allowed case sensitive what which that this these those when where who why how not
    never always also just only still already it its a an the in at to for from with
    by and or of stored saved kept written sent shared used generated rotated
    compromised leaked exposed revoked visible important confidential
    """.split()  # noqa: SIM905
)
_ADJECTIVE: Final = re.compile(r"\w+(?:ed|ing|able|ible|ful|less|ous|ly|ive|ic|al)")


def mark(kind: str) -> str:
    """Return the text that takes a secret's place."""
    return f"[redacted {kind}]"


def is_placeholder(value: str) -> bool:
    """Tell whether *value* stands for a secret without being one."""
    return _PLACEHOLDER.fullmatch(value) is not None


def is_mixed(value: str) -> bool:
    """Tell whether *value* has both letters and digits, as random text does."""
    return _DIGIT.search(value) is not None and _LETTER.search(value) is not None


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a secret is, and what it is called."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Value:
    """What a name gives as its value."""

    start: int
    end: int
    text: str
    """Its first `MAX_JUDGED_CHARS` characters."""
    quoted: bool = False

    @property
    def mixed(self) -> bool:
        """Whether it has both letters and digits."""
        return is_mixed(self.text)

    @property
    def wordy(self) -> bool:
        """Whether it is made of words, which no service gives out as a key."""
        return _WORDS.fullmatch(self.text) is not None

    @property
    def is_plain_word(self) -> bool:
        """Whether it is one word of letters that describes nothing."""
        word = self.text.lower()
        return (
            word.isalpha() and 5 <= len(word) <= 40 and not _ADJECTIVE.fullmatch(word)
        )

    def looks_random(self, kind: str) -> bool:
        """Tell whether nobody would write it as a word; passwords may be short."""
        if kind in ("password", "word"):
            return _SIGN.search(self.text) is not None
        return self.mixed

    def is_secret(self, kind: str) -> bool:
        """Tell whether it can be the secret itself, not talk about one."""
        text = self.text
        if len(text) < _LEAST_CHARS.get(kind, 6) or text.lower() in _DESCRIBING:
            return False
        if kind not in ("password", "word") and text.isdigit() and len(text) < 8:
            return False
        other = (_PLACEHOLDER, _MEASURE, _PATH) + (() if self.quoted else (_CODE,))
        return not any(pattern.fullmatch(text) for pattern in other)
