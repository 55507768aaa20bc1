"""What a database must offer before it can be migrated."""

from __future__ import annotations

import re
from typing import Any, Final

import psycopg
from psycopg import errors as pg

from hermes_pgmemory.errors import ConfigError, SchemaError
from hermes_pgmemory.store import failures
from hermes_pgmemory.store.queries import QUERIES

MAX_DIMENSION: Final = 16_000
"""Components of a halfvec, at most."""

MAX_INDEXED_DIMENSION: Final = 4_000
"""Components beyond which no index can be built: such a database searches exactly."""

OLDEST_SERVER: Final = 150_000
"""PostgreSQL 15, as `server_version_num`: NULLS NOT DISTINCT."""

OLDEST_EXTENSION: Final = (0, 7)
"""The first pgvector with halfvec."""


def check_dimension(dimension: int) -> None:
    """Refuse vectors of a length that no column can hold.

    Raises:
        ConfigError: Names the setting.
    """
    if not 1 <= dimension <= MAX_DIMENSION:
        why = f"its vectors have {dimension} dimensions; the database holds 1 to 16,000"
        raise ConfigError({"plugins.pgvector.embed_model": why})


def check_config(conn: psycopg.Connection[Any], config: str) -> None:
    """Refuse a text search configuration that the server does not have.

    Raises:
        ConfigError: Names the setting.
    """
    known = conn.execute(QUERIES["has_text_search_config"], {"config": config})
    if not known.fetchall()[0][0]:
        why = f"this server has no text search configuration {config!r}"
        raise ConfigError({"plugins.pgvector.text_search_config": why})


def check_server(conn: psycopg.Connection[Any]) -> None:
    """Make sure of the server's version, and of pgvector in this database.

    Raises:
        SchemaError: Says what is too old or missing, and who can mend it.
    """
    if conn.info.server_version < OLDEST_SERVER:
        raise SchemaError(
            "PostgreSQL 15 or newer is needed: upgrade the server, then "
            f"{failures.MIGRATE}"
        )
    database = conn.info.dbname
    row = conn.execute(QUERIES["installed_extension"]).fetchone()
    if row is None:
        _create_extension(conn, database)
    elif _version(row[0]) < OLDEST_EXTENSION:
        raise SchemaError(
            f"pgvector {row[0]} has no halfvec, 0.7 or newer is needed: as a "
            f"superuser, run ALTER EXTENSION vector UPDATE in database {database}, "
            f"then {failures.MIGRATE}"
        )


def _create_extension(conn: psycopg.Connection[Any], database: str) -> None:
    try:
        conn.execute(QUERIES["create_extension"])
    except pg.InsufficientPrivilege as exc:
        raise SchemaError(
            f"pgvector is not in database {database} and {conn.info.user} may not add "
            "it: as a superuser, run CREATE EXTENSION vector there, then "
            f"{failures.MIGRATE}"
        ) from exc
    except (pg.FeatureNotSupported, pg.UndefinedFile) as exc:
        raise SchemaError(
            "pgvector is not installed on the server: install its package (like "
            f"postgresql-18-pgvector) there, then {failures.MIGRATE}"
        ) from exc


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])
