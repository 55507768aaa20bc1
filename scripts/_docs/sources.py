"""What can be imported, from the table that the command goes by."""

from __future__ import annotations

from _docs.words import code, required, table
from hermes_pgmemory.moving.sources import SOURCES


def sources() -> str:
    """Return a table of every source."""
    rows = [
        (
            code(source.name),
            required(source.reads, source.name),
            required(source.gives, source.name),
            required(source.checked, source.name),
        )
        for source in SOURCES
    ]
    return table(("source", "reads", "gives", "the format was checked with"), rows)
