"""The part of the documentation that is written by the code itself.

`docs/conf.py` calls `write` before every build, so that no page can be out of date;
what it writes is included by the pages in docs/reference and is not committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from _docs.api import errors, library, tools
from _docs.commands import commands, exit_status
from _docs.conformance import conformance
from _docs.dependencies import dependencies
from _docs.settings import settings
from _docs.sources import sources
from _docs.words import Undocumented

__all__ = ["PAGES", "Undocumented", "write"]

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "commands": commands,
    "conformance": conformance,
    "dependencies": dependencies,
    "errors": errors,
    "exit-status": exit_status,
    "library": library,
    "settings": settings,
    "sources": sources,
    "tools": tools,
}
"""Name of each generated part, and what writes it in Markdown."""


def write(folder: Path) -> None:
    """Write every part to *folder*, leaving alone what has not changed.

    Raises:
        Undocumented: A setting, command, metric, tool or error has no description.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        path, text = folder / f"{name}.md", page().rstrip() + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            # Two builds at once must not read half a page.
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(path)
