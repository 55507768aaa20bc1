"""The text of the door's files, for this version of the package."""

from __future__ import annotations

import hashlib
import re
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeAlias

from hermes_pgmemory.config import ENVIRONMENT
from hermes_pgmemory.settings_docs import FieldDoc, field_docs

_MARK: Final = "Door of hermes-pgmemory {version}, checksum {checksum}"
_NOTE: Final = (
    "Written by `hermes-pgvector install`; edits are moved aside by the next."
)
_LINES: Final = {
    ".js": ("// {}", "// {}"),
    # JSON has no comments: there the mark opens the object.
    ".json": ('{{"_door": "{}",', '"_note": "{}",'),
}
"""By suffix, how the mark is written in a file's first line, the note in its second."""
_HASHED: Final = ("# {}", "# {}")
_MARK_PATTERN: Final = re.compile(
    r"(?:# |// |\{\"_door\": \")"
    r"Door of hermes-pgmemory (?P<version>\S+), checksum (?P<checksum>[0-9a-f]{16})"
    r"(?:\",)?"
)
_TEMPLATES: Final = Path(__file__).parent / "templates"
_ACRONYMS: Final = frozenset({"dsn", "url", "api", "ttl", "mb"})
_KINDS: Final = {"choice": "select", "identity_aliases": "json"}
"""The host's word for a kind, or for the one setting that needs its own."""

_INLINE: Final = frozenset({"dsn", "embed_url", "embed_model"})
"""Settings that the host's compact panel shows."""

Mark: TypeAlias = tuple[str, bool]
"""The version that wrote a file, and whether it is as it was written."""

FILES: Final = ("__init__.py", "cli.py", "config_schema.py", "plugin.yaml")
"""What makes a memory provider, the last written first: a directory without
`__init__.py` is no plugin to the host, so a half-written door is none either."""

TAB: Final = "dashboard"
TAB_FILES: Final = (
    f"{TAB}/manifest.json",
    f"{TAB}/plugin_api.py",
    f"{TAB}/dist/index.js",
)
"""What makes a tab of the host's dashboard, the last written first: without
`manifest.json` there is none."""


def render() -> dict[str, str]:
    """Return the door's files by name, each with its mark, in the order of writing."""
    names = (*FILES, *TAB_FILES)
    return {name: _marked(name, _body(name)) for name in reversed(names)}


def read_mark(text: str) -> Mark | None:
    """Return the version a door file was made by, and whether it is unedited.

    None for a file that is not ours.
    """
    first, _, body = text.partition("\n")
    match = _MARK_PATTERN.fullmatch(first)
    if match is None:
        return None
    return match["version"], _checksum(body) == match["checksum"]


def _marked(name: str, body: str) -> str:
    first, second = _LINES.get(Path(name).suffix, _HASHED)
    body = f"{second.format(_NOTE)}\n{body}"
    mark = _MARK.format(version=package_version(), checksum=_checksum(body))
    return f"{first.format(mark)}\n{body}"


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def package_version() -> str:
    """Return the version of the installed package."""
    return version("hermes-pgmemory")


def _body(name: str) -> str:
    text = _template(name).replace("@EARLY@\n", _template("early.py"))
    fields = "\n".join(_field(doc) for doc in field_docs())
    return text.replace("@FIELDS@", fields).replace("@VERSION@", package_version())


def _template(name: str) -> str:
    # What git and the build know as dist/ is made by a build, and left out.
    place = _TEMPLATES / name.replace("/dist/", "/")
    return place.with_name(f"{place.name}.in").read_text(encoding="utf-8")


def _field(doc: FieldDoc) -> str:
    words = doc.key.split("_")
    label = " ".join(w.upper() if w in _ACRONYMS else w for w in words)
    values = (
        doc.key,
        label[0].upper() + label[1:],
        _KINDS.get(doc.key) or _KINDS.get(doc.kind, doc.kind),
        doc.default,
        doc.help,
        doc.choices,
        # The panel keeps a secret in .env under this name, and only there.
        ENVIRONMENT.get(doc.key),
        doc.key in _INLINE,
    )
    return f"            field{values!r},"
