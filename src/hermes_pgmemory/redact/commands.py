"""Secrets known by where they stand, without a name: in a header, in a command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hermes_pgmemory.redact.values import (
    MAX_JUDGED_CHARS,
    Secret,
    Value,
    is_placeholder,
)

_HEADER: Final = re.compile(
    r"\bauthorization\\?[\"']?\s?[:=]\s?\\?[\"']?"
    r"(?:(?:bearer|basic|token|apikey)\s+)(?P<value>[^\s\"'`,;\\\[]{6,})"
    r"|\bbearer\s+(?P<bearer>[A-Za-z0-9._~+/=-]{8,})",
    re.IGNORECASE,
)
_SHELL: Final = re.compile(
    r"(?<!\S)sshpass\s+-p\s?[\"']?(?P<a>[^\s\"'\[]+)"
    r"|\slogin\s+\S{1,80}\s+password\s+(?P<b>[^\s\[]+)"
    r"|\s(?:-u|--user)[ =][\"']?[^\s:\"']{1,64}:(?P<c>[^\s\"'\[]{4,})"
)


def in_headers(text: str) -> Iterator[Secret]:
    """Yield the credentials of HTTP headers; a bare `Bearer x` must look random."""
    for found in _HEADER.finditer(text):
        group = found.lastgroup or ""
        value = Value(*found.span(group), found[group][:MAX_JUDGED_CHARS])
        long = len(value.text) >= 24 or (len(value.text) >= 10 and value.mixed)
        if (long or group == "value") and not is_placeholder(value.text):
            kind = "credential" if group == "value" else "bearer token"
            yield Secret(value.start, value.end, kind)


def in_commands(text: str) -> Iterator[Secret]:
    """Yield the passwords given to sshpass, curl and login."""
    for found in _SHELL.finditer(text):
        group = found.lastgroup or ""
        value = found[group][:MAX_JUDGED_CHARS]
        if group == "c" and ("curl" not in text or value.isdigit()):
            continue
        if not is_placeholder(value):
            yield Secret(*found.span(group), "password")
