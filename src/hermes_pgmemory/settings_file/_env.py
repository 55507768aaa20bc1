"""Environment variables as the host has them: `${VAR}` references and `.env`.

The host expands `${VAR}` in config.yaml from its environment and, at start, puts
HERMES_HOME/.env into that environment. A command that runs outside the host does
both here, so that it sees what an agent sees.
"""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Final, cast

REFERENCE: Final = re.compile(r"\$\{([^}]+)\}")
_ASSIGNMENT: Final = re.compile(
    r"""\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*
        (?:'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)"|(?P<plain>.*?))
        (?:\s+\#.*|\s*)$""",
    re.VERBOSE,
)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


def expand(value: Any) -> Any:
    """Replace `${VAR}` in every string of *value*; unknown names stay as written."""
    if isinstance(value, str):
        return REFERENCE.sub(lambda match: os.environ.get(match[1], match[0]), value)
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        return {key: expand(item) for key, item in mapping.items()}
    if isinstance(value, list):
        return [expand(item) for item in cast("list[Any]", value)]
    return value


def has_reference(value: Any) -> bool:
    """Tell whether `expand` could change *value*."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, dict):
        return any(
            has_reference(item) for item in cast("dict[str, Any]", value).values()
        )
    if isinstance(value, list):
        return any(has_reference(item) for item in cast("list[Any]", value))
    return False


def parse_dotenv(text: str) -> dict[str, str]:
    """Read assignments from the text of a `.env` file; other lines are ignored."""
    values: dict[str, str] = {}
    for line in text.removeprefix("\ufeff").splitlines():
        match = _ASSIGNMENT.match(line)
        if match is None or line.lstrip().startswith("#"):
            continue
        if match["double"] is not None:
            value = re.sub(
                r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), match["double"]
            )
        else:
            value = match["single"] if match["single"] is not None else match["plain"]
        values[match["name"]] = value
    return values


def load_dotenv(home: Path, environ: MutableMapping[str, str] = os.environ) -> None:
    """Put HERMES_HOME/.env into *environ*; as in the host, the file wins.

    Only for a command's own process: inside the host this has happened already.
    """
    try:
        raw = (home / ".env").read_bytes()
    except OSError:
        return
    values = parse_dotenv(raw.decode("utf-8", errors="replace"))
    environ.update({k: v for k, v in values.items() if "\0" not in v})
