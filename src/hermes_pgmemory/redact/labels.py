"""Secrets that are known by the name before them: `password=…`, "my password is …".

A name is looked for first, then what joins it to a value, then the value; each step
matches once, forward, from where the last one ended, so that time stays linear. How
much a value must look like a secret depends on how clearly it is given as one:

| given as                                            | taken if the value is         |
|-----------------------------------------------------|-------------------------------|
| `password=x`, `"password": x`, or a line            | no word that describes        |
| `password: x` with nothing behind it                | one, no code, not too short   |
| `password: "x"`, `--password x`, PASSWORD 'x'       | the same; a bare one mixed    |
| password: x, in the middle of a line                | mixed: digits or signs in it  |
| my password is x, at the end of a sentence          | no describing word            |
| the password (for y) is x                           | mixed                         |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hermes_pgmemory.redact.commands import in_commands, in_headers
from hermes_pgmemory.redact.values import MAX_JUDGED_CHARS, Secret, Value, mark

_ANCHORS: Final = (
    *("pass", "pw", "token", "_pat", "key", "secret", "credential"),
    *("kennwort", "wachtwoord", "contrase", "senha", "haslo"),
)
"""A part of every name in ASCII, in lower case. That a text holds none is told soonest
by looking for one after the other."""
_ASCII_ANCHOR: Final = re.compile("|".join(_ANCHORS))
_ANCHOR: Final = re.compile(
    rf"{_ASCII_ANCHOR.pattern}|hasło|парол|密[码碼]|パスワード|비밀번호"
)
_KEY_OF: Final = (
    r"(?:api|secret(?:[ _-]?access)?|private|access|auth|account|encryption|signing"
    r"|master|storage|shared|subscription)[ _-]?"
)
_BEFORE_KEY: Final = re.compile(_KEY_OF + r"\Z")
_NAME: Final = re.compile(
    rf"""
    (?: (?P<password>
            pass(?:word|wort|wd|phrase|code|e)?s? | pwd? | kennwort | wachtwoord
          | contrase[ñn]a | senha | has[łl]o | парол[ьяю]
        )
      | (?P<key> {_KEY_OF}key (?:[_-]?base)? )
      | (?P<token> token | _pat )
      | (?P<secret> secret )
      | (?P<credential> credentials? )
    )
    (?:[_-]?\d{{1,3}})? (?![^\W_]) (?!_\w)
    | (?P<word> 密码 | 密碼 | パスワード | 비밀번호 )
    """,
    re.VERBOSE,
)
_SHORT: Final = frozenset({"pass", "pw", "pwd", "senha", "haslo", "hasło"})
"""Names that also end other words: compass, bypass."""
_KINDS: Final = {"key": "api key", "word": "password"}
_CHOSEN: Final = frozenset({"password", "word", "secret"})
"""Secrets that a person may have made up of words."""

_JOINT: Final = re.compile(
    r"(?P<quote>\\{0,3}[\"'`])?\]?[*_`]{0,3}[ \t]{0,8}"
    r"(?P<sign>=>|:=|=(?![=~])|:(?![:/\\])|\uff1a)[*_]{0,2}[ \t]{0,8}"
)
_IS: Final = re.compile(
    r"(?:\s(?:for|to|of|on|at|für|von|de|del|pour)(?:\s[^\s.!?;:=]{1,40}){1,4}?)?"
    r"\s*(?:\s(?:is|was|are|ist|est|es|è|é|jest)\b|是|は|는|은)\s*:?\s*",
    re.IGNORECASE,
)
_SPACE: Final = re.compile(r"[ \t]{1,4}")
_QUOTED: Final = re.compile(
    r"""\\"(?P<a>(?:(?!\\")[^\n])*)\\"
      | "(?P<b>(?:[^"\\\n]|\\.)*)"
      | '(?P<c>(?:[^'\\\n]|\\.)*)'
      | `(?P<d>[^`\n]*)`
      | [\u201c\u201e](?P<e>[^\u201c\u201d\n]*)[\u201c\u201d]
    """,
    re.VERBOSE,
)
_BARE: Final = re.compile(
    r"""(?:(?![&;,]\s?[A-Za-z_][\w.-]{0,40}\s?=)        # the next pair
          (?!["'`](?:[\s,;:)\]}&]|$))                   # a quote around it all
          (?!\[redacted[ ]) \S)+
    """,
    re.VERBOSE,
)
_MAX_VALUES_IN_RUN: Final = 32
"""Names without a space or quote between them, `token:token:…`; more is no text."""
_CLOSING: Final = frozenset(",;.)]}>\"'`*…")
_ENDING: Final = _CLOSING | frozenset(":!?")
_ALONE: Final = re.compile(r"[ \t,;]*(?:\r?\n|\Z|[ \t]\#)")
_LINE_START: Final = re.compile(
    r"[\s>*|\"'`+-]{0,20}(?:(?:export|set|env|ENV|ARG)[ \t]+)?[\w.$-]{0,60}"
)
_FLAG: Final = re.compile(r"--[\w-]{0,30}\Z")
_SENTENCE_END: Final = re.compile(r"[.!]*(?:\s*\Z|\s*\n)")
_OWNER: Final = re.compile(
    r"(?:my|our|the|his|her|their|your|new|old|mein|meine|das|unser|mon|le|la|mi|meu"
    r"|minha|current|temporary|admin|root|user|database|wifi|wi-fi)(?:\s\w{1,20})?\s\Z",
    re.IGNORECASE,
)


def redact_labelled(text: str) -> str:
    """Replace the values that a name, a header or a sentence gives as secret."""
    lowered = _lower(text)
    found: list[Secret] = []
    if not lowered.isascii() or _holds_an_anchor(lowered):
        found += _Names(text, lowered).secrets()
    if "authori" in lowered or "bearer" in lowered:
        found += in_headers(text)
    if "curl" in lowered or "login" in lowered or "sshpass" in lowered:
        found += in_commands(text)
    if not found:
        return text
    kept: list[str] = []
    done = 0
    for secret in sorted(found, key=lambda secret: secret.start):
        if secret.start >= done:
            kept += [text[done : secret.start], mark(secret.kind)]
            done = secret.end
    return "".join([*kept, text[done:]])


def _holds_an_anchor(lowered: str) -> bool:
    for anchor in _ANCHORS:  # noqa: SIM110 - a generator takes twice as long
        if anchor in lowered:
            return True
    return False


def _lower(text: str) -> str:
    """Return *text* in lower case, every character in its place."""
    lowered = text.lower()
    if len(lowered) != len(text):
        # The one letter whose lower case is two characters.
        lowered = text.replace("\u0130", "i").lower()
    return lowered


class _Names:
    """One reading of a text for names and their values."""

    def __init__(self, text: str, lowered: str) -> None:
        """Start with *text* unread; *lowered* is the same, place for place."""
        self._text = text
        self._lowered = lowered
        self._run = (0, 0)
        self._values_in_run = 0

    def secrets(self) -> Iterator[Secret]:
        """Yield what is named as secret, in order, never overlapping."""
        done = 0
        anchors = _ASCII_ANCHOR if self._lowered.isascii() else _ANCHOR
        for anchor in anchors.finditer(self._lowered):
            name = self._name(anchor)
            if not name or name.start() < done:
                continue
            value = self._assigned(name) or self._spoken(name) or self._spaced(name)
            if value:
                kind = name.lastgroup or ""
                yield Secret(value.start, value.end, _KINDS.get(kind, kind))
                done = value.end

    def _name(self, anchor: re.Match[str]) -> re.Match[str] | None:
        """Return the whole name around *anchor*, None if it ends another word."""
        start = anchor.start()
        if anchor[0] == "key":
            before = _BEFORE_KEY.search(self._lowered, max(0, start - 16), start)
            start = before.start() if before else start
        name = _NAME.match(self._lowered, start)
        if name and name[0] == "_pat":
            return name if self._is_upper(name) else None
        if not name or name[0] not in _SHORT or start == 0:
            return name
        before_it, first = self._text[start - 1 : start + 1]
        is_own = not before_it.isalpha() or (before_it.islower() and first.isupper())
        return name if is_own else None

    def _is_upper(self, name: re.Match[str]) -> bool:
        return self._text[name.start() : name.end()].isupper()

    def _value(self, at: int, trim: frozenset[str]) -> Value:
        text = self._text
        quoted = _QUOTED.match(text, at)
        if quoted and quoted.lastgroup:
            start, end = quoted.span(quoted.lastgroup)
            return Value(start, end, text[start:end][:MAX_JUDGED_CHARS], quoted=True)
        # Where a run of characters ends does not depend on where in it one starts.
        self._values_in_run += 1
        if not self._run[0] <= at < self._run[1]:
            bare = _BARE.match(text, at)
            self._run = (at, bare.end() if bare else at)
            self._values_in_run = 0
        if self._values_in_run > _MAX_VALUES_IN_RUN:
            return Value(at, at, "")
        end = self._run[1]
        for _ in range(8):
            if end > at and text[end - 1] in trim:
                end -= 1
        return Value(at, end, text[at : min(end, at + MAX_JUDGED_CHARS)])

    def _assigned(self, name: re.Match[str]) -> Value | None:
        """Return the value of `name=x`, `"name": x`, `name: x`."""
        joint = _JOINT.match(self._text, name.end())
        if not joint:
            return None
        kind = name.lastgroup or ""
        value = self._value(joint.end(), _CLOSING)
        if not value.is_secret(kind):
            return None
        clear = "=" in joint["sign"] or value.quoted or self._own_line(name, value.end)
        if clear and kind in ("key", "token", "credential"):
            # `"token": "hello"` is a token of text; `FOO_TOKEN=hello` is not.
            clear = not value.wordy or (self._is_upper(name) and value.text.islower())
        return value if clear or value.looks_random(kind) else None

    def _spoken(self, name: re.Match[str]) -> Value | None:
        """Return the value of "my name is x"."""
        joint = _IS.match(self._text, name.end())
        if not joint:
            return None
        kind = name.lastgroup or ""
        value = self._value(joint.end(), _ENDING)
        if not value.is_secret(kind):
            return None
        chosen = kind in _CHOSEN and (value.quoted or self._ends(name, value))
        return value if chosen or value.looks_random(kind) else None

    def _spaced(self, name: re.Match[str]) -> Value | None:
        """Return the value of `--name x`, and of SQL's PASSWORD 'x'."""
        joint = _SPACE.match(self._text, name.end())
        if not joint:
            return None
        kind = name.lastgroup or ""
        value = self._value(joint.end(), _CLOSING)
        flag = _FLAG.search(self._text, max(0, name.start() - 32), name.start())
        given = (value.quoted and self._is_upper(name)) or (
            flag and (value.quoted or value.looks_random(kind))
        )
        return value if given and value.is_secret(kind) else None

    def _own_line(self, name: re.Match[str], end: int) -> bool:
        """Tell whether a telling name and its value have a line to themselves."""
        first = max(0, name.start() - 80)
        line = self._text.rfind("\n", first, name.start()) + 1
        if line == 0 and first > 0:
            return False
        if name.lastgroup not in ("password", "word") and not self._is_upper(name):
            return False
        before = _LINE_START.fullmatch(self._text, line, name.start())
        return bool(before and _ALONE.match(self._text, end))

    def _ends(self, name: re.Match[str], value: Value) -> bool:
        """Tell whether a plain word ends the sentence that gives it as the secret."""
        return (
            name.lastgroup in ("password", "word")
            and name[0] not in _SHORT
            and value.is_plain_word
            and bool(_OWNER.search(self._text, max(0, name.start() - 32), name.start()))
            and bool(_SENTENCE_END.match(self._text, value.end))
        )
