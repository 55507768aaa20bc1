"""Loader of the named statements in this package's *.sql files.

A file is a series of blocks. `-- :name x` opens a statement; `-- :fragment x` opens
a piece of SQL that the statements below it include as `{x}`, so that a rule such as
who may see a row is written once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Final, LiteralString, cast

_HEADER: Final = re.compile(
    r"^-- :(?P<kind>name|fragment) (?P<name>\w+)\n", re.MULTILINE
)
_COMMENT: Final = re.compile(r"^--.*\n?", re.MULTILINE)
"""Notes for the reader; the server need not read them with every call."""

_FILES: Final = (
    "session",
    "words",
    "entries",
    "files",
    "turns",
    "known",
    "agents",
    "search",
    "listing",
    "standby",
    "sealed",
    "index",
    "upkeep",
    "maintenance",
    "history",
    "forget",
    "ledger",
    "adopt",
    "convert",
    "reembed",
    "moving",
    "dump",
    "roles",
    "probe",
    "dashboard",
)


def parse(text: str) -> tuple[dict[str, LiteralString], dict[str, str]]:
    """Split a query file into its statements and its fragments, by name, filled in.

    Raises:
        ValueError: Two blocks share a name, or a statement includes a fragment that
            is not above it.
    """
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    fragments: dict[str, str] = {}
    found: dict[str, LiteralString] = {}
    for header, end in zip(headers, ends, strict=True):
        name = header["name"]
        if name in found or name in fragments:
            raise ValueError(f"block {name!r} is defined twice")
        body = _include(_COMMENT.sub("", text[header.end() : end]), fragments).strip()
        if header["kind"] == "fragment":
            fragments[name] = body
        else:
            # The file ships with the package, so it is as trusted as a literal.
            found[name] = cast("LiteralString", body)
    return found, fragments


def _include(body: str, fragments: Mapping[str, str]) -> str:
    def fill(found: re.Match[str]) -> str:
        if found[1] not in fragments:
            raise ValueError(f"no fragment {found[1]!r} above its use")
        return fragments[found[1]]

    return re.sub(r"\{(\w+)\}", fill, body)


def load() -> tuple[dict[str, LiteralString], dict[str, str]]:
    """Read every query file of this package; see `parse`."""
    here = files(__package__ or "")
    text = "\n".join(here.joinpath(f"{name}.sql").read_text() for name in _FILES)
    return parse(text)


QUERIES, FRAGMENTS = load()
