"""The commands, in the words of their own `--help`."""

from __future__ import annotations

import io
import os
import re
from contextlib import redirect_stdout, suppress
from typing import Final
from unittest.mock import patch

from _docs.words import Undocumented, required, table
from hermes_pgmemory import cli
from hermes_pgmemory.cli._result import Status

COLUMNS: Final = "80"
"""Characters in a line of help, whatever the terminal."""


def commands() -> str:
    """Return every command under a heading of its own."""
    return "\n\n".join(
        f"## `{name}`\n\n```text\n{help_of(name)}\n```" for name, _ in cli.commands()
    )


def help_of(*words: str) -> str:
    """Return what `hermes-pgvector WORDS --help` prints.

    Raises:
        Undocumented: It prints nothing.
    """
    said = io.StringIO()
    wide = patch.dict(os.environ, {"COLUMNS": COLUMNS})
    with wide, redirect_stdout(said), suppress(SystemExit):
        cli.main([*words, "--help"])
    if not said.getvalue():
        raise Undocumented(f"{' '.join(words)} does not explain itself")
    return said.getvalue().rstrip()


def exit_status() -> str:
    """Return a table of what a command's exit status says."""
    told = dict(re.findall(r"(\d) (.+?)[;.]", " ".join((cli.__doc__ or "").split())))
    rows = [
        (f"`{status.value}`", required(told.get(str(status.value)), f"{status!r}"))
        for status in Status
    ]
    rows.append((f"`{cli.INTERRUPTED}`", "ended by Ctrl-C"))
    return table(("Status", "What it says"), rows)
