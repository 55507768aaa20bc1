"""Connections: few, checked, bounded in time, and quiet about failure.

Every call runs in one transaction and sets nothing that outlives it, so a pooler in
transaction mode may stand in between. A call ends by its time limit even when the
server has stopped answering altogether: no lock, dead socket or full pool makes it
wait longer.
"""

from __future__ import annotations

import logging
import math
import select
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import count
from time import monotonic
from typing import Any, Final, LiteralString, Self, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, TupleRow, dict_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from hermes_pgmemory.errors import DatabaseUnavailable
from hermes_pgmemory.store import failures, nesting, vectors
from hermes_pgmemory.store.dsn import Dsn
from hermes_pgmemory.store.queries import QUERIES

T = TypeVar("T")

Begin = Callable[[], AbstractContextManager[psycopg.Connection[Any]]]
"""Begins a transaction of a call that may take several, all within its time."""

ALIVE_S: Final = 0.5
"""Seconds for which a connection that has answered is believed to be alive."""

CHECK_S: Final = 1.0
"""Seconds an idle connection has to prove that it is alive."""

DEAF_S: Final = 0.5
"""Seconds of trying to connect after which nobody seems to be there."""

GRACE_S: Final = 0.5
"""Seconds past its limit before a call drops the connection: PostgreSQL, told the
same limit, is given the chance to cancel and keep it."""

CLOSE_S: Final = 0.5
"""Seconds to wait for the pool's threads; one may be connecting to a dead host."""

READER: Final = "hermes_pgmemory_reader"
"""The role that only reads our tables, where an administrator made one."""

IDLE_S: Final = 28.0
"""Seconds after which nobody holds a connection that nobody uses."""
LIFETIME_S: Final = 300.0
_POLL_S: Final = 0.05
_BOUNDS_TRANSACTIONS: Final = 170000
"""The first PostgreSQL that also ends a transaction in a pipeline."""
_UNFINISHED: Final = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
_PREFIX: Final = "hermes-pgmemory-"
_NUMBERS: Final = count(1)


class BoundedConnection(psycopg.Connection[TupleRow]):
    """A connection that gives up on a silent server at `deadline`."""

    deadline: float = math.inf
    """On the monotonic clock; the next wait past it closes the connection."""

    answered: float = -math.inf
    """When, on that clock, a transaction ended as it should."""

    @classmethod
    def connect(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, conninfo: str = "", *, outage: Outage, **kwargs: Any
    ) -> Self:
        """Connect, or note why not in *outage* and raise that without secrets."""
        try:
            conn = super().connect(conninfo, **kwargs)
        except psycopg.Error as exc:
            raise outage.failed(exc) from None
        outage.connected(conn)
        return conn

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Wait for the server as usual, but not beyond the deadline."""
        return super().wait(self._bounded(gen), *args, **kwargs)

    def _bounded(self, gen: PQGen[T]) -> PQGen[T]:
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if monotonic() > self.deadline:
                    self.pgconn.finish()
                    raise psycopg.OperationalError("the server stopped answering")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


class Outage:
    """What came of connecting lately, for callers that wait for a connection.

    The pool connects on a thread of its own and leaves its clients in the dark.
    """

    def __init__(self, dsn: Dsn) -> None:
        """Start with nothing seen."""
        self._dsn = dsn
        self._open: list[BoundedConnection] = []
        self.failures = 0
        self.cause = ""

    def failed(self, exc: psycopg.Error) -> DatabaseUnavailable:
        """Count *exc* and return it in this package's words."""
        why = self._dsn.redact(failures.cause(exc))
        self.cause = f"no database: {why} (see {self._dsn.key})"
        self.failures += 1
        return DatabaseUnavailable(self.cause)

    def connected(self, conn: BoundedConnection) -> None:
        """Remember *conn* while it is open."""
        self._open = [*(one for one in self._open if not one.closed), conn]

    @property
    def is_total(self) -> bool:
        """Tell whether no connection is open that somebody may give back."""
        return all(conn.closed for conn in self._open)


class Database:
    """A pool of bounded connections; the first call opens it."""

    def __init__(
        self, dsn: Dsn, *, pool_size: int, max_idle_s: float, read_only: bool = False
    ) -> None:
        """Prepare; nothing connects and no thread starts yet.

        Args:
            dsn: Where to connect.
            pool_size: Connections at most, at least 1.
            max_idle_s: Seconds after which no unused connection is left.
            read_only: Have PostgreSQL refuse every change, and read as the role
                `READER` where that exists and the user is its member.
        """
        self.dsn = dsn
        self._read_only = read_only
        self._closed = False
        self._outage = Outage(dsn)
        adapters = vectors.adapters()
        nesting.bound(adapters)
        self._pool = ConnectionPool(
            dsn.text,
            connection_class=BoundedConnection,
            kwargs={
                **dsn.parameters,
                "outage": self._outage,
                "autocommit": True,  # transactions are opened explicitly, below
                "prepare_threshold": None,
                "context": adapters,
            },
            min_size=0,
            max_size=pool_size,
            # The pool closes one unused connection per period, after a first in
            # which it only watches.
            max_idle=max_idle_s / (pool_size + 1),
            max_lifetime=LIFETIME_S,
            # A failed attempt ends at once; the next call makes the next one.
            reconnect_timeout=0,
            num_workers=1,
            check=_check,
            name=f"{_PREFIX}{next(_NUMBERS)}",
            open=False,
        )

    def close(self) -> None:
        """Close every connection and stop the pool's threads; harmless twice."""
        self._closed = True
        self._pool.close(timeout=CLOSE_S)

    @contextmanager
    def transaction(
        self, timeout_s: float, *, deadline: float = math.inf
    ) -> Generator[BoundedConnection]:
        """Run the body in one transaction that ends within *timeout_s* seconds.

        Or by *deadline* on the monotonic clock, where others have used up a part.

        Raises:
            DatabaseUnavailable: It could not be reached, or not in time (often as
                `DatabaseBusy`); if that happened while committing, nobody knows whether
                it did.
            SchemaError: Something the statements need is missing.
            Rejected: PostgreSQL refuses a value; nothing was written.
        """
        deadline = min(deadline, monotonic() + timeout_s)
        with failures.translated(self.dsn.redact, timeout_s=timeout_s):
            conn = self._checkout(deadline)
            try:
                conn.deadline = deadline + GRACE_S
                with self._begun(conn):
                    _limit(conn, deadline - monotonic())
                    if self._read_only:
                        conn.execute(QUERIES["become_reader"], {"role": READER})
                    yield conn
                conn.answered = monotonic()
            finally:
                conn.deadline = monotonic() + CHECK_S
                self._pool.putconn(conn)

    @contextmanager
    def _begun(self, conn: BoundedConnection) -> Generator[None]:
        """Run the body in a transaction, and wait for the server only for answers.

        BEGIN goes with the body's first question, and COMMIT with the last; with
        `conn.transaction()` each is a round trip. Whatever failed in between, known by
        now or not, makes the server skip the COMMIT. The body may raise
        `psycopg.Rollback`, to have rehearsed only.
        """
        piped = conn.info.server_version >= _BOUNDS_TRANSACTIONS
        try:
            with (
                suppress(psycopg.Rollback),
                conn.pipeline() if piped else nullcontext(),
            ):
                conn.execute(QUERIES["begin_reading" if self._read_only else "begin"])
                yield
                conn.execute(QUERIES["commit"])
        finally:
            if conn.info.transaction_status in _UNFINISHED:
                conn.rollback()

    def _checkout(self, deadline: float) -> BoundedConnection:
        """Take a live connection from the pool.

        The pool lets its clients wait out their time when connecting fails. So wait
        in short turns and look whether it did; then only a connection that somebody
        is about to give back is worth waiting for.
        """
        if self._closed:
            raise PoolClosed
        if self._pool.closed:
            _quieten()
            self._pool.open()
        seen, started = self._outage.failures, monotonic()
        while True:
            left = deadline - monotonic()
            failed = self._outage.failures > seen
            try:
                return self._pool.getconn(
                    timeout=left if failed else min(left, _POLL_S)
                )
            except PoolTimeout:
                over = failed or left <= _POLL_S
                if self._outage.failures > seen and (over or self._outage.is_total):
                    raise DatabaseUnavailable(self._outage.cause) from None
                if over and self._outage.is_total and monotonic() - started > DEAF_S:
                    raise
                if over:
                    raise failures.PoolFull from None


def read(
    begin: Begin,
    statement: LiteralString,
    parameters: Mapping[str, Any],
    *,
    after: tuple[LiteralString, Mapping[str, Any]] | None = None,
) -> list[DictRow]:
    """Run one statement in a transaction of its own and return its rows.

    That is one round trip, because they are looked at only when COMMIT has gone, too.

    Args:
        begin: Begins the transaction.
        statement: Only reads.
        parameters: Of the statement.
        after: A statement that goes before it, with its parameters.
    """
    with begin() as conn:
        if after is not None:
            conn.execute(*after)
        cursor = conn.cursor(row_factory=dict_row).execute(statement, parameters)
    return cursor.fetchall()


def _check(conn: BoundedConnection) -> None:
    """Raise if a connection of the pool is dead.

    One that has just answered need not be asked: if it was closed since, its socket
    has something to say, and an idle one has nothing.
    """
    poll = select.poll()
    poll.register(conn.fileno(), select.POLLIN)
    if monotonic() - conn.answered < ALIVE_S and not poll.poll(0):
        return
    conn.deadline = monotonic() + CHECK_S
    conn.execute("")


def _limit(conn: BoundedConnection, left_s: float) -> None:
    limit = max(1, int(left_s * 1000))
    most = limit + int(GRACE_S * 1000)
    parameters = {"limit": f"{limit}", "most": f"{most}"}
    conn.execute(QUERIES["limit_transaction"], parameters)


def _is_news(record: logging.LogRecord) -> bool:
    """Tell whether a record of the driver's is not about one of our connections.

    What it warns about reaches the caller as an error, once per call; in the log it
    would be a storm for as long as a server is down.
    """
    if record.levelno < logging.WARNING:
        return True
    about = record.args[0] if isinstance(record.args, tuple) and record.args else None
    # A pipeline names its connection in no text.
    if isinstance(getattr(about, "_conn", None), BoundedConnection):
        return False
    text = record.getMessage()
    return _PREFIX not in text and BoundedConnection.__name__ not in text


def _quieten() -> None:
    for name in ("psycopg", "psycopg.pool"):
        logging.getLogger(name).addFilter(_is_news)
