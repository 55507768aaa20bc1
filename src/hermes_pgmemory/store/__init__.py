"""The room that knows SQL and PostgreSQL's driver; no other does.

Everything is bound by a time limit, idempotent, and safe behind a pooler in
transaction mode. Nothing here changes the schema, except `migrate` and `convert`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from time import monotonic

from hermes_pgmemory.errors import (
    BadRequest,
    SchemaError,
    UnstorableWrite,
)
from hermes_pgmemory.models import (
    Accepted,
    Entry,
    EntryHit,
    FileRow,
    FileVerdict,
    Scope,
    Target,
    ThemeCount,
    TurnHit,
    Vector,
    Write,
)
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import dsn as dsns
from hermes_pgmemory.store import (
    failures,
    files,
    known,
    listing,
    migrate,
    search,
    upkeep,
    watermarks,
)
from hermes_pgmemory.store import writes as applying
from hermes_pgmemory.store.connection import IDLE_S, BoundedConnection, Database
from hermes_pgmemory.store.dashboard import Views
from hermes_pgmemory.store.facts import DatabaseFacts, read_facts
from hermes_pgmemory.store.forget import Forgetting
from hermes_pgmemory.store.maintenance import Maintenance
from hermes_pgmemory.store.moving import Moving
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.sealed import Planner
from hermes_pgmemory.store.upkeep import Table, Unembedded
from hermes_pgmemory.store.watermarks import SealedIndex

__all__ = ["DatabaseFacts", "Store", "Table", "Unembedded", "migrate"]


class Store:
    """One database's memory, shared by the threads of a process.

    Every method takes `timeout_s`, in seconds: it returns or raises by then, give or
    take a second. Every method may raise `DatabaseUnavailable` (try again
    later) and `SchemaError` (an administrator must act; nothing is lost meanwhile).
    """

    def __init__(
        self,
        dsn: str,
        *,
        model: str | None = None,
        pool_size: int = 4,
        max_idle_s: float = IDLE_S,
        key: str = dsns.KEY,
        read_only: bool = False,
    ) -> None:
        """Prepare a store; it connects, and starts threads, with its first call.

        Args:
            dsn: Connection string, in either of libpq's forms.
            model: Whose vectors this store is given; with another model active it
                refuses to write them and compares them with nothing. None: whatever
                model is active.
            pool_size: Connections at most.
            max_idle_s: Seconds after which an unused connection is closed.
            key: The setting that *dsn* comes from, for messages.
            read_only: Have PostgreSQL refuse every change.

        Raises:
            ConfigError: libpq cannot parse *dsn*.
        """
        self._model = model
        self._database = Database(
            dsns.parse(dsn, key=key),
            pool_size=pool_size,
            max_idle_s=max_idle_s,
            read_only=read_only,
        )
        self._planner = Planner()

    def close(self) -> None:
        """Close all connections and end all threads; harmless twice, or unused."""
        self._database.close()

    def verify(self, *, timeout_s: float, whole: bool = True) -> DatabaseFacts:
        """Check that the schema is this package's, and return the database's facts.

        Unless the *whole* schema is wanted, what `migrate.OPTIONAL` names may lack.

        Raises:
            SchemaError: Migrations are missing, edited, or newer than this package.
        """
        with self._database.transaction(timeout_s) as conn:
            missing = migrate.pending(conn)
            if missing and (whole or not migrate.OPTIONAL.issuperset(missing)):
                raise SchemaError(failures.lacking(missing))
            return read_facts(conn, lacks=missing)

    def apply(
        self,
        batch: Sequence[Accepted],
        vectors: Mapping[int, Vector],
        *,
        timeout_s: float = 30,
    ) -> int:
        """Apply what of *batch* was not applied before, all of it or nothing.

        Args:
            batch: Journaled writes in the order of acceptance.
            vectors: Index in *batch* to the embedding of that write's content, by
                the active model.
            timeout_s: Seconds.

        Returns:
            How many writes were applied; those applied earlier do not count.

        Raises:
            DimensionMismatch: The vectors are not the active model's.
            ModelMismatch: The same, found by the model's name. Nothing was written.
            UnstorableWrite: PostgreSQL refuses one of the writes; which one, only
                smaller batches tell.
            ValueError: There are vectors, and nobody told this store whose they are.
        """
        deadline = monotonic() + timeout_s

        def once() -> int:
            with self._database.transaction(timeout_s, deadline=deadline) as conn:
                return applying.apply(conn, batch, vectors, model=self._model)

        # Where two writers got in each other's way, one has finished by now.
        return failures.retried(once)

    def known_vectors(
        self, writes: Sequence[Write], *, timeout_s: float
    ) -> dict[int, Vector]:
        """Return vectors of the active model for texts that are stored already.

        By index in *writes*. Only rows of the same theme and contact are looked at.
        """
        with self._database.transaction(timeout_s) as conn:
            return known.vectors(conn, writes, model=self._model)

    def search_entries(
        self,
        question: Question,
        *,
        target: Target | None = None,
        exclude: Collection[str] = (),
        timeout_s: float,
    ) -> list[EntryHit]:
        """Return the memory entries that answer best, best first; ties by id.

        Args:
            question: What is asked.
            target: Of MEMORY.md or USER.md alone; None for both.
            exclude: Contents that the reader has before him already.
            timeout_s: Seconds.

        Raises:
            DimensionMismatch: Its vector is not the active model's.
            BadRequest: PostgreSQL refuses another value.
        """
        return search.search_entries(
            partial(self._asking, timeout_s, monotonic() + timeout_s),
            question,
            target=target,
            exclude=exclude,
            planner=self._planner,
            model=self._model,
        )

    def search_turns(
        self,
        question: Question,
        *,
        session_id: str | None = None,
        timeout_s: float,
    ) -> list[TurnHit]:
        """Return the conversation turns that answer best, best first; ties by id.

        Like `search_entries`; *session_id* confines it to one session.
        """
        return search.search_turns(
            partial(self._asking, timeout_s, monotonic() + timeout_s),
            question,
            session_id=session_id,
            planner=self._planner,
            model=self._model,
        )

    def list_entries(
        self,
        *,
        scope: Scope,
        target: Target | None = None,
        holding: str = "",
        limit: int,
        timeout_s: float,
    ) -> list[Entry]:
        """Return the newest memory entries, of those that hold *holding* as it is.

        Always of the primary: what was written a moment ago is among them.

        Raises:
            BadRequest: PostgreSQL refuses *holding*.
        """
        with self._asking(timeout_s) as conn:
            return listing.entries(
                conn, scope=scope, target=target, holding=holding, limit=limit
            )

    @contextmanager
    def _asking(
        self, timeout_s: float, deadline: float = math.inf
    ) -> Generator[BoundedConnection]:
        """Begin a transaction of a question that must be answered by *deadline*."""
        try:
            with self._database.transaction(timeout_s, deadline=deadline) as conn:
                yield conn
        except UnstorableWrite as exc:
            raise BadRequest(str(exc)) from exc

    @property
    def maintenance(self) -> Maintenance:
        """What an operator does to this database now and then."""
        return Maintenance(self._database)

    @property
    def forgetting(self) -> Forgetting:
        """What deletes a contact's or a theme's memory for good."""
        return Forgetting(self._database)

    @property
    def moving(self) -> Moving:
        """The way of rows out of this database, or into it."""
        return Moving(self._database)

    @property
    def views(self) -> Views:
        """What an operator looks at, page by page."""
        return Views(self._database)

    def counts(self, *, timeout_s: float) -> list[ThemeCount]:
        """Count what each theme holds, by name of theme."""
        with self._database.transaction(timeout_s) as conn:
            return upkeep.counts(conn)

    def sealed_indexes(self, *, timeout_s: float) -> list[SealedIndex]:
        """Return how far each sealed index reaches, and what lies behind it."""
        with self._database.transaction(timeout_s) as conn:
            return watermarks.read(conn)

    def behind_s(self, *, timeout_s: float) -> float | None:
        """Return the age of what this standby last replayed, in seconds.

        0 where it has replayed all that it received; None where it is no standby.
        """
        with self._database.transaction(timeout_s) as conn:
            return conn.execute(QUERIES["behind"]).fetchall()[0][0]

    def file_rows(
        self, ids: Sequence[str], *, replaces: bool = False, timeout_s: float
    ) -> list[FileRow]:
        """Return a memory file's rows, of any theme; see `reconcile`."""
        with self._database.transaction(timeout_s) as conn:
            return files.rows(conn, ids, replaces=replaces)

    def reconcile(
        self,
        ids: Sequence[str],
        *,
        judge: Callable[[Sequence[FileRow]], FileVerdict],
        unchanged: Callable[[], bool],
        at: datetime,
        replaces: bool = False,
        timeout_s: float,
    ) -> tuple[list[FileRow], FileVerdict | None]:
        """Bring the rows of a memory file in line with it, in one transaction.

        Args:
            ids: What rows call the file, then what they call its ancestors.
            judge: Compares the file with these rows; called twice, the second time
                with all other writers of their themes held back.
            unchanged: Whether the file is still the one that *judge* knows; asked
                then too. If not, nothing is written.
            at: When the file changed.
            replaces: Whether it took the place of its ancestors, as after a move: from
                now on they hold nothing.
            timeout_s: Seconds.

        Returns:
            The rows as they were judged, and the verdict that was carried out; None
            if the file has changed meanwhile.
        """
        with self._database.transaction(timeout_s) as conn:
            return files.reconcile(
                conn, ids, judge=judge, unchanged=unchanged, at=at, replaces=replaces
            )

    def bare(self, table: Table, *, timeout_s: float) -> tuple[int, int] | None:
        """Return the first and last id of the rows that wait for a vector."""
        with self._database.transaction(timeout_s) as conn:
            return upkeep.bare(conn, table)

    def unembedded(
        self,
        table: Table,
        *,
        limit: int,
        after: int = 0,
        theme: str | None = None,
        timeout_s: float,
    ) -> list[Unembedded]:
        """Return up to *limit* rows that wait for a vector, by id.

        *after* is the last id of the previous call: rows that could not be embedded
        would otherwise come back for ever. Without a *theme*, those of all.
        """
        with self._database.transaction(timeout_s) as conn:
            return upkeep.unembedded(conn, table, limit=limit, after=after, theme=theme)

    def set_vectors(
        self,
        table: Table,
        vectors: Sequence[tuple[Unembedded, Vector]],
        *,
        timeout_s: float,
    ) -> int:
        """Give rows their vectors; return how many still wanted one.

        A row that was replaced since it was read is left alone. Only a store that
        was told its *model* writes them: the database may be moved to another model
        while rows are being embedded.

        Raises:
            DimensionMismatch: The vectors are not the active model's.
            ModelMismatch: The same, found by the model's name. Nothing was written.
            UnstorableWrite: PostgreSQL refuses one of the vectors.
            ValueError: Nobody told this store whose vectors they are.
        """
        if self._model is None:
            raise ValueError("a store that writes vectors must be told their model")
        with self._database.transaction(timeout_s) as conn:
            return upkeep.set_vectors(conn, table, vectors, model=self._model)
