"""What a command hands back: values, and how people see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from hermes_pgmemory.errors import BadRequest, PgMemoryError, Unavailable


class Status(IntEnum):
    """Exit status of a command."""

    DONE = 0
    FAILED = 1
    """An operator must change something."""
    USAGE = 2
    UNAVAILABLE = 3
    """Something does not answer now; the same command may work later."""


def status_of(exc: PgMemoryError) -> Status:
    """Choose the exit status for one of our own errors."""
    if isinstance(exc, Unavailable):
        return Status.UNAVAILABLE
    return Status.USAGE if isinstance(exc, BadRequest) else Status.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under a title."""

    title: str
    rows: Sequence[Sequence[str]]
    head: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One command's outcome."""

    data: Mapping[str, Any]
    """What `--json` prints."""
    tables: Sequence[Table] = ()
    text: str = ""
    """Printed after the tables."""
    status: Status = Status.DONE
