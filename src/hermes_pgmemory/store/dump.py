"""What a backup needs of a database: one moment, our objects, how many rows."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_pgmemory.errors import ConfigError, SchemaError
from hermes_pgmemory.store import dsn as dsns
from hermes_pgmemory.store import migrate
from hermes_pgmemory.store.queries import QUERIES

SCRATCH: Final = "pgmemory_verify_"
_HELD: Final[Mapping[str, LiteralString]] = {
    "memory_entries": QUERIES["count_memory_entries"],
    "conversations": QUERIES["count_conversations"],
}
_INHERITED: Final = ("PATH", "HOME", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A database at one moment."""

    snapshot: str
    """What pg_dump is told to see the same."""
    objects: Sequence[str]
    """Our tables and view, with their schema, quoted."""
    counts: Mapping[str, int]
    """Rows by table."""
    version: int
    """PostgreSQL's `server_version_num`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A database that something is restored into."""

    database: str
    version: int
    has_extension: bool
    objects: Sequence[str]
    memories: int
    """Entries and turns in it."""


@contextmanager
def moment(dsn: str) -> Generator[Moment]:
    """Hold a database's present moment while the block runs; others go on.

    Raises:
        DatabaseUnavailable: It cannot be reached.
        SchemaError: It is to be migrated first, or its vectors are on the move.
    """
    with migrate.connect(dsn) as conn, conn.transaction():
        conn.execute(QUERIES["begin_snapshot"])
        conn.execute(QUERIES["lift_limits"])
        if missing := migrate.pending(conn):
            raise SchemaError(f"the database lacks {', '.join(missing)}: migrate first")
        if conn.execute(QUERIES["our_triggers"]).fetchall()[0][0]:
            raise SchemaError(
                "vectors are on the move: let `hermes-pgvector reembed` or `convert` "
                "finish, or take it back, and back up then"
            )
        yield Moment(
            snapshot=conn.execute(QUERIES["export_snapshot"]).fetchall()[0][0],
            objects=_objects(conn),
            counts=counts(conn),
            version=conn.info.server_version,
        )


def target(dsn: str) -> Target:
    """Look at the database at *dsn*, which may be empty."""
    with migrate.connect(dsn) as conn:
        [facts] = conn.execute(QUERIES["target_facts"]).fetchall()
        name, version, has_extension = facts
        objects = _objects(conn)
        there = {name.rpartition(".")[2] for name in objects}
        # One by one: of an older schema, or of a part of one, they are worth as much.
        held = [
            conn.execute(query).fetchall()[0][0]
            for table, query in _HELD.items()
            if table in there
        ]
        return Target(
            database=name,
            version=version,
            has_extension=has_extension,
            objects=objects,
            memories=sum(held),
        )


def prepare(dsn: str, schemas: Sequence[str]) -> None:
    """Make the schemas that a backup's tables were in, where they are missing."""
    with migrate.connect(dsn) as conn:
        for name in schemas:
            make = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}")
            conn.execute(make.format(sql.Identifier(name)))


def restored(dsn: str) -> Mapping[str, int]:
    """Have the planner look at what was restored, and count it."""
    with migrate.connect(dsn) as conn:
        conn.execute(QUERIES["analyze_ours"])
        return counts(conn)


@contextmanager
def scratch(dsn: str) -> Generator[str]:
    """Make a database beside the one at *dsn*; it goes when the block ends.

    One that was killed meanwhile left a copy of all memories: that goes, too.

    Raises:
        SchemaError: The role may not make databases.
    """
    name = f"{SCRATCH}{secrets.token_hex(8)}"
    with (
        migrate.connect(dsn) as conn,
        migrate.connect(dsn) as guard,
        guard.transaction(),
    ):
        guard.execute(QUERIES["lift_limits"])
        if not conn.execute(QUERIES["may_create_databases"]).fetchall()[0][0]:
            raise SchemaError(
                f"role {conn.info.user} may not create a database to try the backup "
                "in: grant it CREATEDB, or use --admin-dsn"
            )
        gone = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        for (stray,) in conn.execute(QUERIES["stray_scratch"]).fetchall():
            conn.execute(gone.format(sql.Identifier(stray)))
        guard.execute(QUERIES["hold_scratch"], {"name": name})
        quoted = sql.Identifier(name)
        conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(quoted))
        try:
            yield make_conninfo(dsn, dbname=name)
        finally:
            conn.execute(gone.format(quoted))


def counts(conn: psycopg.Connection[Any]) -> Mapping[str, int]:
    """Count the rows of each of our tables."""
    cursor = conn.execute(QUERIES["our_counts"])
    names = [column.name for column in cursor.description or ()]
    return dict(zip(names, cursor.fetchall()[0], strict=True))


def environment(dsn: str) -> tuple[dict[str, str], str]:
    """Return how a program of PostgreSQL is told where the database is.

    Its environment, which holds the password if there is one, and a connection string
    for what has no variable: other users see the words of a command line.

    Raises:
        ConfigError: libpq cannot parse *dsn*, or it holds a secret without a variable.
    """
    dsns.parse(dsn)
    names = {
        option.keyword.decode(): option.envvar.decode()
        for option in pq.Conninfo.get_defaults()
        if option.envvar
    }
    parts = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    if "sslpassword" in parts or "oauth_client_secret" in parts:
        raise ConfigError(
            {dsns.KEY: "holds a secret that pg_dump takes on its command line only"}
        )
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    own = {name: value for name, value in os.environ.items() if name.startswith("PG")}
    told = {names[key]: value for key, value in parts.items() if key in names}
    rest = {key: value for key, value in parts.items() if key not in names}
    # Never empty: an empty one would not be taken for a connection string.
    where = make_conninfo("", application_name="hermes-pgmemory", **rest)
    return {**kept, **own, "LC_ALL": "C", **told}, where


def _objects(conn: psycopg.Connection[Any]) -> list[str]:
    return [name for (name,) in conn.execute(QUERIES["our_objects"]).fetchall()]
