"""Bring a database up to date: an administrator's act, never an agent's.

The migrations ship as SQL files and are applied in one transaction, all or nothing.
A ledger remembers each with a checksum of its text, so that a database that is newer
than this package, or was migrated by an edited file, is refused and not guessed at.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg import errors as pg
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from hermes_pgmemory.errors import SchemaError
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store import adoption, failures, requirements
from hermes_pgmemory.store import dsn as dsns
from hermes_pgmemory.store.adoption import Adopted, Adoption
from hermes_pgmemory.store.facts import read_facts
from hermes_pgmemory.store.queries import QUERIES

OPTIONAL: Final = frozenset({"0003_agents"})
"""Without these an agent goes on, with less; commands may ask for them."""

_FILE: Final = re.compile(r"\d{4}_[a-z_]+\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One shipped file."""

    version: str
    """Its name without the ending, like 0001_settings."""
    text: str
    """Its text with `:dimensions` in place of the vectors' length."""

    @property
    def checksum(self) -> str:
        """Identify the text, however a checkout ended its lines."""
        text = self.text.replace("\r\n", "\n")
        return hashlib.sha256(text.encode()).hexdigest()

    def sql(self, dimension: int) -> LiteralString:
        """Return the statements for vectors of *dimension* components."""
        # The file ships with the package, so it is as trusted as a literal.
        text = self.text.replace(":dimensions", f"{dimension:d}")
        return cast("LiteralString", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """What bringing a database up to date came to."""

    applied: list[str]
    """Versions, in order; empty where there was nothing to do."""
    adopted: Adopted | None = None
    """What was taken over from hermes-memory-pgvector, if this was its database."""


@cache
def shipped() -> tuple[Migration, ...]:
    """Return every migration of this package, in order."""
    folder = files(__package__ or "").joinpath("migrations")
    found = sorted(f.name for f in folder.iterdir() if _FILE.fullmatch(f.name))
    return tuple(
        Migration(
            version=name.removesuffix(".sql"),
            text=folder.joinpath(name).read_text(encoding="utf-8"),
        )
        for name in found
    )


def pending(conn: psycopg.Connection[Any]) -> list[str]:
    """Return the versions that `apply` would run. Reads only.

    Raises:
        SchemaError: An applied migration differs from the shipped file, or the
            database knows one that this package does not.
    """
    known = dict[str, str](_read_ledger(conn))
    if strangers := sorted(known.keys() - {m.version for m in shipped()}):
        raise SchemaError(
            f"the database is newer than this package, which lacks "
            f"{', '.join(strangers)}: upgrade hermes-pgmemory, then "
            f"{failures.MIGRATE}"
        )
    edited = [
        migration.version
        for migration in shipped()
        if known.get(migration.version, migration.checksum) != migration.checksum
    ]
    if edited:
        raise SchemaError(
            f"{', '.join(edited)} was edited after it was applied: install an "
            f"unchanged hermes-pgmemory, then {failures.MIGRATE}"
        )
    return [m.version for m in shipped() if m.version not in known]


def apply(
    dsn: str, model: EmbeddingModel, *, text_search_config: str = "english"
) -> list[str]:
    """Do what `upgrade` does; return the versions applied."""
    return upgrade(dsn, model, text_search_config=text_search_config).applied


def upgrade(
    dsn: str, model: EmbeddingModel, *, text_search_config: str = "english"
) -> Upgraded:
    """Bring the database at *dsn* up to date; take it over if it is the original's.

    All or nothing, and nothing the second time. Concurrent callers queue. A new
    database takes *model* as its active model and keeps *text_search_config*; so does
    one that is taken over, if *model* makes vectors of the length it holds. One that
    has them already is not changed in these.

    Raises:
        ConfigError: The DSN, the model's dimension or the text search configuration
            cannot be used.
        DatabaseUnavailable: The database does not answer, or another migration has
            been running for two minutes, or a long transaction holds a table.
        SchemaError: Something an administrator must do first, or undo.
    """
    requirements.check_dimension(model.dimension)
    with connect(dsn) as conn, conn.transaction():
        conn.execute(QUERIES["lift_limits"])
        conn.execute(QUERIES["lock_ledger"])
        conn.execute(QUERIES["limit_locks"])
        todo = pending(conn)
        adopted = None
        if todo:
            requirements.check_server(conn)
            requirements.check_config(conn, text_search_config)
            adopted = _run(conn, todo, model, text_search_config)
        _seed(conn, model, text_search_config)
    return Upgraded(applied=todo, adopted=adopted)


@contextmanager
def connect(
    dsn: str, *, key: str = dsns.KEY
) -> Generator[psycopg.Connection[TupleRow]]:
    """Open an administrator's connection; inside, errors are this package's own."""
    target = dsns.parse(dsn, key=key)
    with failures.translated(target.redact):
        options: dict[str, Any] = {**target.parameters}
        with psycopg.connect(
            target.text, autocommit=True, prepare_threshold=None, **options
        ) as conn:
            yield conn


def _read_ledger(conn: psycopg.Connection[Any]) -> list[tuple[str, str]]:
    if not _has_ledger(conn):
        return []
    return conn.execute(QUERIES["read_ledger"]).fetchall()


def _has_ledger(conn: psycopg.Connection[Any]) -> bool:
    return bool(conn.execute(QUERIES["has_ledger"]).fetchall()[0][0])


def _run(
    conn: psycopg.Connection[Any], todo: list[str], model: EmbeddingModel, config: str
) -> Adopted | None:
    """Apply the migrations *todo*; return what was taken over, if anything was."""
    dimension = _dimension(conn, model)
    with _explained(conn):
        work = _adoption(conn, model, config)
        if not _has_ledger(conn):
            conn.execute(QUERIES["create_ledger"])
        for migration in shipped():
            if migration.version in todo:
                if not (work and work.replaces(migration.version)):
                    conn.execute(migration.sql(dimension))
                if work:
                    work.follow(migration.version)
                entry = {"version": migration.version, "checksum": migration.checksum}
                conn.execute(QUERIES["record_migration"], entry)
        return work and work.finish()


@contextmanager
def _explained(conn: psycopg.Connection[Any]) -> Generator[None]:
    """Say what an administrator is to do about a statement that failed."""
    try:
        yield
    except pg.DuplicateTable as exc:
        raise SchemaError(
            f"{exc.diag.message_primary}, but not by this package: "
            "migrate an empty database, or rename the old tables first"
        ) from exc
    except pg.DependentObjectsStillExist as exc:
        raise SchemaError(
            f"{exc.diag.message_primary}: drop what depends on it (psql names it), "
            f"then {failures.MIGRATE}"
        ) from exc
    except pg.InsufficientPrivilege as exc:
        raise SchemaError(
            f"{exc.diag.message_primary}: run `hermes-pgvector migrate` as the "
            f"database's owner, not as {conn.info.user}"
        ) from exc


def _adoption(
    conn: psycopg.Connection[Any], model: EmbeddingModel, config: str
) -> Adoption | None:
    """Begin to take over the original's tables, if these are its."""
    if _has_ledger(conn) or not adoption.is_original(conn):
        return None
    work = Adoption(conn, model, config)
    work.begin()
    return work


def _dimension(conn: psycopg.Connection[Any], model: EmbeddingModel) -> int:
    """Return the length of this database's vectors; of *model*'s, if it is new."""
    if not _has_ledger(conn):
        return model.dimension
    active = read_facts(conn).model
    return active.dimension if active else model.dimension


def _seed(conn: psycopg.Connection[Any], model: EmbeddingModel, config: str) -> None:
    """Settle what the database's words and vectors mean, if that is open."""
    words, active, *_ = conn.execute(QUERIES["settings"]).fetchall()[0]
    if words is None:
        conn.execute(
            QUERIES["seed_setting"],
            {"key": "text_search_config", "value": Jsonb(config)},
        )
    if active is None:
        row = conn.execute(QUERIES["add_model"], asdict(model)).fetchall()[0]
        conn.execute(
            QUERIES["seed_setting"], {"key": "active_model_id", "value": Jsonb(row[0])}
        )
