"""The fenced blocks of a page: commands, and what they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(
    r"(?P<not_run>^<!-- not run: [^>]+-->\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """Commands to type, and what they print, as far as the page says so."""

    commands: str
    expected: str | None

    def is_like(self, printed: str) -> bool:
        """Tell whether this was printed; `…` stands for anything."""
        if self.expected is None:
            return True
        pattern = re.escape(self.expected).replace("…", r"(.|\n)*?")
        return re.search(f"^{pattern}", printed, re.MULTILINE) is not None


def blocks(page: Path) -> Iterator[Block]:
    """Yield what is to be run, in order, each with the output that follows it."""
    commands: str | None = None
    for fence in _FENCE.finditer(page.read_text()):
        output = fence["text"] if fence["language"] == "text" else None
        if commands is not None:
            yield Block(commands, output)
        runs = fence["language"] == "sh" and not fence["not_run"]
        commands = fence["text"] if runs else None
    if commands is not None:
        yield Block(commands, None)
