"""A bar on standard error while something long runs; nothing without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def bar(title: str, *, total: int | None = None) -> Generator[Callable[[int], None]]:
    """Show how far it is; yields what is to be told how many more rows are done.

    Without a *total* it only counts.
    """
    if not sys.stderr.isatty():
        yield _silent
        return
    # Slow to import, and only for terminals.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    times = [TimeElapsedColumn(), TimeRemainingColumn()]
    console = Console(stderr=True)
    with Progress(*columns, *times, console=console, transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda rows: progress.advance(task, rows)


def _silent(rows: int, /) -> None:
    del rows
