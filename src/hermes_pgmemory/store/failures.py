"""Driver errors, translated once into this package's own.

A message holds one line that an operator can act on: what failed, where, and what
to run. It never holds a row's content (PostgreSQL puts that into DETAIL, which is
dropped) nor a secret of the connection string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout

from hermes_pgmemory.errors import (
    DatabaseBusy,
    DatabaseUnavailable,
    DimensionMismatch,
    PgMemoryError,
    SchemaError,
    UnstorableWrite,
)

MIGRATE: Final = "run `hermes-pgvector migrate`"

ATTEMPTS: Final = 5
"""Tries of a transaction that keeps colliding with the fleet's own writes."""

T = TypeVar("T")


def lacking(versions: Iterable[str]) -> str:
    """Say which migrations a database lacks, and what to run."""
    return f"the database lacks {', '.join(versions)}: {MIGRATE}"


_LONGEST: Final = 200
"""Characters of a server's message worth showing."""

_CONNECT: Final = re.compile(
    r"connection to server (?:at \"(?P<host>[^\"]*)\"(?: \([^)]*\))?, "
    r"port (?P<port>\d+)|on socket \"(?P<socket>[^\"]*)\") failed: (?P<why>[^\n]+)"
)
_DIMENSIONS: Final = (
    re.compile(r"expected (?P<expected>\d+) dimensions, not (?P<got>\d+)"),
    re.compile(r"different \w+ dimensions (?P<expected>\d+) and (?P<got>\d+)"),
)
_MISSING: Final = (
    pg.UndefinedTable,
    pg.UndefinedColumn,
    pg.UndefinedFunction,
    pg.UndefinedObject,
    pg.InvalidSchemaName,
)
_LATE: Final = (
    pg.QueryCanceled,
    pg.LockNotAvailable,
    pg.IdleInTransactionSessionTimeout,
)
_REFUSED: Final = (psycopg.DataError, psycopg.IntegrityError)
_COLLISIONS: Final = (pg.DeadlockDetected, pg.SerializationFailure, pg.UniqueViolation)
_UNFIT: Final = (UnicodeError, OverflowError)
"""What client-side conversion raises: a lone surrogate, a float beyond halfvec."""


class PoolFull(PoolTimeout):
    """No connection was free in time, and nothing says that there is no server."""


@contextmanager
def translated(
    redact: Callable[[str], str], *, timeout_s: float | None = None
) -> Generator[None]:
    """Raise this package's error in place of the driver's.

    Args:
        redact: Blanks secrets.
        timeout_s: The caller's time limit in seconds, for the message.
    """
    try:
        yield
    except (PoolTimeout, *_LATE) as exc:
        limit = "in time" if timeout_s is None else f"within {timeout_s:g} s"
        line = f"the database did not answer {limit}"
        if isinstance(exc, (PoolFull, *_LATE)):
            raise DatabaseBusy(line) from exc
        raise DatabaseUnavailable(line) from exc
    except PoolClosed as exc:
        raise DatabaseUnavailable("the store is closed") from exc
    except psycopg.Error as exc:
        raise translation(exc, redact) from exc
    except _UNFIT as exc:
        raise UnstorableWrite(f"cannot be sent: {type(exc).__name__}") from exc


def translation(exc: psycopg.Error, redact: Callable[[str], str]) -> PgMemoryError:
    """Return this package's error for the driver's *exc*."""
    why = redact(cause(exc))
    if isinstance(exc, pg.InsufficientPrivilege):
        return SchemaError(f"{why}: grant it to this role, or {MIGRATE} as the owner")
    if isinstance(exc, _MISSING):
        return SchemaError(f"{why}: {MIGRATE}")
    if numbers := _dimensions(exc):
        return DimensionMismatch(expected=numbers[0], got=numbers[1])
    if isinstance(exc, _REFUSED) or _is_limit(exc):
        return UnstorableWrite(why)
    if isinstance(exc, psycopg.ProgrammingError):
        return SchemaError(f"{why}: the schema is not this package's; {MIGRATE}")
    return DatabaseUnavailable(why)


def is_collision(exc: PgMemoryError) -> bool:
    """Tell whether *exc* only means that another transaction was in the way."""
    return isinstance(exc.__cause__, _COLLISIONS)


def retried(work: Callable[[], T]) -> T:
    """Do *work*, one transaction; again, up to `ATTEMPTS` times, after a collision."""
    for _ in range(ATTEMPTS - 1):
        try:
            return work()
        except PgMemoryError as exc:
            if not is_collision(exc):
                raise
    return work()


def cause(exc: psycopg.Error) -> str:
    """Say in one line why *exc* happened; secrets are still in it."""
    text = str(exc)
    if exc.diag.message_primary:
        line = f"{exc.diag.message_primary} ({type(exc).__name__})"
    elif places := [_place(found) for found in _CONNECT.finditer(text)]:
        line = "; ".join(dict.fromkeys(places))
    else:
        line = text.partition("\n")[0] or type(exc).__name__
    return " ".join(line.split())[:_LONGEST]


def _place(found: re.Match[str]) -> str:
    """Phrase one failed attempt: "connection refused at host db port 5432"."""
    why = found["why"].strip().removeprefix("FATAL:").strip()
    if found["socket"]:
        where = f"socket {found['socket']}"
    else:
        where = f"host {found['host']} port {found['port']}"
    if not why[:2].isupper():  # "SSL error" keeps its capitals
        why = f"{why[:1].lower()}{why[1:]}"
    return f"{why} at {where}"


def _dimensions(exc: psycopg.Error) -> tuple[int, int] | None:
    if not isinstance(exc, psycopg.DataError):
        return None
    for pattern in _DIMENSIONS:
        if found := pattern.search(exc.diag.message_primary or ""):
            return int(found["expected"]), int(found["got"])
    return None


def _is_limit(exc: psycopg.Error) -> bool:
    """Tell whether the input is too large for PostgreSQL (SQLSTATE class 54)."""
    return (exc.sqlstate or "").startswith("54")
