"""What commands share that change the tables beside living agents.

They need the tables' owner, and a connection that is not in a pool: some steps are no
transaction. Every step may be cut off, and done again.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, LiteralString

import psycopg
from psycopg import errors as pg

from hermes_pgmemory.errors import DatabaseUnavailable, SchemaError
from hermes_pgmemory.store import failures, migrate
from hermes_pgmemory.store.queries import QUERIES

LOCK_ATTEMPTS: Final = 30
LOCK_PAUSE_S: Final = 0.5
"""Between attempts, for the writers that queued behind the last one."""

Step = tuple[LiteralString, Mapping[str, Any] | None]
"""A statement and its parameters."""


@contextmanager
def opened(
    dsn: str,
    command: str,
    *,
    lock: LiteralString = QUERIES["lock_conversion"],
    rival: str = "conversion or reembed",
) -> Generator[psycopg.Connection[Any]]:
    """Open a database whose schema is current, in autocommit, for one at a time.

    Args:
        dsn: Of the tables' owner.
        command: Who asks, for messages.
        lock: The statement that keeps others away.
        rival: What the others are called.

    Raises:
        DatabaseUnavailable: It does not answer, or another such command is running.
        SchemaError: It is to be migrated first, its tables belong to another role, or
            a pooler stands before it.
    """
    with (
        migrate.connect(dsn) as conn,
        migrate.connect(dsn) as guard,
        guard.transaction(),
        _as_owner(conn, command),
    ):
        guard.execute(QUERIES["lift_limits"])
        if missing := migrate.pending(conn):
            raise SchemaError(
                f"the database lacks {', '.join(missing)}: {failures.MIGRATE}"
            )
        _claim(conn, command)
        if not guard.execute(lock).fetchall()[0][0]:
            raise DatabaseUnavailable(f"another {rival} is running")
        yield conn


def _claim(conn: psycopg.Connection[Any], command: str) -> None:
    """Make sure that *conn* is a server's own, and free it of its role's limits.

    A step over a large table may take hours. Behind a pooler the next statement may
    come to another server, and what runs here would keep the fleet from one.
    """
    [(pid,)] = conn.execute(QUERIES["claim_connection"]).fetchall()
    if pid != conn.info.backend_pid:
        raise SchemaError(
            f"this connection goes through a pooler: run `hermes-pgvector {command} "
            "--admin-dsn -` with a DSN on standard input that leads to the server "
            "itself"
        )


def briefly(conn: psycopg.Connection[Any], *steps: Step) -> None:
    """Do in one transaction what needs a strong lock; queue for it in short turns."""
    for left in range(LOCK_ATTEMPTS - 1, -1, -1):
        try:
            with conn.transaction():
                for statement, parameters in steps:
                    conn.execute(statement, parameters)
        except (pg.LockNotAvailable, pg.DeadlockDetected):
            if not left:
                raise
            time.sleep(LOCK_PAUSE_S)
        else:
            return


@contextmanager
def _as_owner(conn: psycopg.Connection[Any], command: str) -> Generator[None]:
    try:
        yield
    except pg.InsufficientPrivilege as exc:
        raise SchemaError(
            f"{exc.diag.message_primary}: run `hermes-pgvector {command} --admin-dsn "
            "-` with the DSN of the tables' owner on standard input, not as "
            f"{conn.info.user}"
        ) from exc
    except pg.DependentObjectsStillExist as exc:
        raise SchemaError(
            f"{exc.diag.message_primary}: drop what depends on the old vectors, then "
            "run this again"
        ) from exc
