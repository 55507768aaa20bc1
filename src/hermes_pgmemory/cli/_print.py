"""Data to standard output, words to standard error; colours only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from hermes_pgmemory.cli._result import Result, Table


def emit(result: Result, *, as_json: bool) -> None:
    """Print *result* for a program or for people, as far as they read on."""
    with _until_nobody_reads(sys.stdout):
        if as_json:
            sys.stdout.write(f"{json.dumps(result.data, default=str)}\n")
            return
        if result.tables:
            fancy = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
            (_rich if fancy else _plain)(result)
        if result.text:
            sys.stdout.write(f"{result.text}\n")


def say(line: str) -> None:
    """Tell a person something that is not the command's data; work goes on unheard."""
    with _until_nobody_reads(sys.stderr):
        sys.stderr.write(f"{line}\n")


@contextmanager
def _until_nobody_reads(stream: TextIO) -> Generator[None]:
    """Flush *stream* at the end; a reader that went away has seen enough."""
    try:
        yield
        stream.flush()
    except BrokenPipeError:
        # What is left in the buffer would be flushed at exit, and fail again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def complain(line: str) -> None:
    """Say why the command failed, in one line."""
    say(f"hermes-pgvector: {' '.join(line.split())}")


def _plain(result: Result) -> None:
    blocks = ["\n".join([table.title, *_lines(table)]) for table in result.tables]
    sys.stdout.write("\n\n".join(blocks) + "\n")


def _lines(table: Table) -> list[str]:
    rows = [tuple(table.head), *table.rows] if table.head else list(table.rows)
    if not rows:
        return ["  -"]
    count = max(len(row) for row in rows)
    widths = [
        max((len(r[i]) for r in rows if i < len(r)), default=0) for i in range(count)
    ]
    return [
        "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]


def _rich(result: Result) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow, and only for terminals
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    for number, table in enumerate(result.tables):
        if number:
            console.print()
        console.print(Text(table.title, style="bold"))
        grid = RichTable(box=None, show_header=bool(table.head), pad_edge=False)
        columns = max([len(table.head), *(len(row) for row in table.rows)], default=1)
        for index in range(columns):
            name = table.head[index] if index < len(table.head) else ""
            grid.add_column(Text(name), style="" if index else "cyan", overflow="fold")
        for row in table.rows:
            grid.add_row(*(Text(cell) for cell in row))
        console.print(grid if table.rows else Text("  -"))
