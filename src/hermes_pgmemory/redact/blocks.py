"""Secrets inside a larger form: private key blocks, and passwords in URLs."""

from __future__ import annotations

import re
from typing import Final

from hermes_pgmemory.redact.values import is_mixed, is_placeholder, mark

_PEM_MARK: Final = re.compile(
    r"-{4,5} ?(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
)
_PEM_GAP: Final = r"(?:[\s>|#*\"',+]|\\+[nrt])"
_PEM_DATA: Final = re.compile(r"[A-Za-z0-9+/]{16}")
_PEM_REST: Final = re.compile(
    rf"(?:{_PEM_GAP}*+(?:[A-Za-z0-9+/]{{16,}}={{0,2}}"
    r"|(?:Proc-Type|DEK-Info|Version|Comment|Hash): [^\n\\]{0,200}))*"
    rf"(?:{_PEM_GAP}++[A-Za-z0-9+/=]{{1,15}}+(?={_PEM_GAP}*+(?:\Z|…)))?"
)
_PEM_LINE: Final = re.compile(r"[ \t>|]*[A-Za-z0-9+/]+={0,2}[ \t\r]*")
_PEM_MAX_CHARS: Final = 32_768


def redact_pem(text: str) -> str:
    """Replace private key blocks, whole ones and those cut off at either end."""
    marks = list(_PEM_MARK.finditer(text))
    kept: list[str] = []
    done = 0
    for place, found in enumerate(marks):
        if found.start() < done:
            continue
        after = marks[place + 1] if place + 1 < len(marks) else None
        since = max(done, marks[place - 1].end() if place else 0)
        start, end = _pem_block(text, found, after, since)
        if start < end:
            kept += [text[done:start], mark("private key")]
            done = end
    return "".join([*kept, text[done:]])


def _pem_block(
    text: str, found: re.Match[str], after: re.Match[str] | None, since: int
) -> tuple[int, int]:
    """Return where the block of one BEGIN or END line starts and ends.

    An empty range if there is no key: somebody only speaks of such lines.
    """
    if found[1] == "END":
        start = _pem_front(text, since, found.start())
        return start, found.end() if start < found.start() else start
    if after and after[1] == "END" and after.start() - found.end() < _PEM_MAX_CHARS:
        has_key = _PEM_DATA.search(text, found.end(), after.start())
        return found.start(), after.end() if has_key else found.start()
    rest = _PEM_REST.match(text, found.end())
    has_key = rest and _PEM_DATA.search(rest[0])
    return found.start(), rest.end() if rest and has_key else found.start()


def _pem_front(text: str, start: int, end: int) -> int:
    """Return where the lines of key data begin that lead up to *end*."""
    begin = end
    lines = text[max(start, end - _PEM_MAX_CHARS) : end].split("\n")
    place = end - len(lines.pop())
    for line in reversed(lines):
        if not _PEM_LINE.fullmatch(line):
            break
        place -= len(line) + 1
        if len(line) >= 16:
            begin = place
    return begin


_USER: Final = re.compile(r"[^\s/?#:@\"'<>`]*:")
_LONE_USER: Final = re.compile(r"([A-Za-z0-9_-]{20,255})@")
_URL_REST: Final = re.compile(r"(?:[^\s\"'<>`]|[\"'<>`](?![\s,;:)\]}>]|$))*")
_SCHEME: Final = re.compile(r"[A-Za-z0-9+.-]*$")
_AUTHORITY: Final = re.compile(r"[^/?#]*")
_QUERY: Final = re.compile(r"\?[A-Za-z_]+=")
_PORT: Final = re.compile(r"\d{0,5}(?:[/?#,;)\]}]|$)")
_PORT_IN_LIST: Final = re.compile(r"\d{1,5}[,;]")


def redact_url_passwords(text: str) -> str:
    """Replace the password of every URL that has one, whatever its scheme."""
    kept: list[str] = []
    done = 0
    at = text.find("://")
    while at >= 0:
        following = text.find("://", at + 3)
        limit = len(text) if following < 0 else following
        start, end, kind = _url_secret(text, at, limit)
        if start < end and not is_placeholder(text[start:end]):
            kept += [text[done:start], mark(kind)]
            done = end
        at = following
    return "".join([*kept, text[done:]])


def _url_secret(text: str, at: int, limit: int) -> tuple[int, int, str]:
    """Return the range and kind of the secret in the URL whose `://` is at *at*."""
    lone = _LONE_USER.match(text, at + 3, limit)
    if lone:
        end = lone.end(1) if is_mixed(lone[1]) else lone.start(1)
        return lone.start(1), end, "token"
    user = _USER.match(text, at + 3, limit)
    if not user:
        return at, at, ""
    found = _URL_REST.match(text, user.end(), limit)
    rest = found[0] if found else ""
    scheme = _SCHEME.search(text[max(0, at - 20) : at])
    web = scheme is not None and scheme[0].lower().endswith(("http", "https", "ws"))
    return user.end(), user.end() + _password_length(rest, web=web), "password"


def _password_length(rest: str, *, web: bool) -> int:
    """Return how much of what follows `user:` in a URL is the password.

    Its `@` is the last one before the path. A database's URL pasted with a raw
    password may have slashes in it, and no `@` of its own before the query.
    """
    authority = _AUTHORITY.match(rest)
    head = authority[0] if authority else ""
    if not web:
        query = _QUERY.search(rest)
        head = rest[: query.start()] if query else rest
    if web and _PORT_IN_LIST.match(rest):
        return 0
    at = head.rfind("@")
    if at >= 0 and not head.startswith("sha256:", at + 1):
        return at
    if web and "@" in rest and not _PORT.match(rest):
        return rest.index("@")
    return 0
