"""Roles: the administrator's act of granting, and what a role lacks, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict

from hermes_pgmemory.errors import PgMemoryError, SchemaError
from hermes_pgmemory.store import dsn as dsns
from hermes_pgmemory.store.migrate import connect
from hermes_pgmemory.store.queries import QUERIES

SHOWN: Final = 4
"""Objects named in one line; more are counted."""


def grant(dsn: str, role: str) -> None:
    """Give *role* exactly what agents need, on our objects. Harmless again.

    Args:
        dsn: Of the administrator who owns the tables.
        role: Any role's name, as PostgreSQL spells it.

    Raises:
        DatabaseUnavailable: The database does not answer.
        SchemaError: There is no such role, or the administrator may not grant.
    """
    with connect(dsn) as conn, conn.transaction():
        admin = conn.info.user
        if not conn.execute(QUERIES["role_exists"], {"role": role}).fetchall()[0][0]:
            raise SchemaError(
                f"the server has no role {role!r}: create it first, like "
                f'CREATE ROLE "{role}" LOGIN'
            )
        conn.execute(QUERIES["name_runtime_role"], {"role": role})
        try:
            with conn.transaction():
                conn.execute(QUERIES["grant_to_runtime_role"])
        except pg.InsufficientPrivilege as exc:
            why = exc.diag.message_primary
            raise SchemaError(
                f"role {admin} may not grant to role {role} ({why}): run this as the "
                "owner of the tables"
            ) from exc
        # A grantor without the grant option is only warned.
        if missing := _lacking(conn, role):
            raise SchemaError(
                f"role {admin} could not give role {role} {_told(missing)}: run this "
                "as the owner of the tables"
            )


def user_of(dsn: str) -> str | None:
    """Return the user that a connection string names.

    Raises:
        ConfigError: libpq cannot parse *dsn*.
    """
    dsns.parse(dsn)
    user = conninfo_to_dict(dsn).get("user")
    return str(user) if user else None


def explain(error: SchemaError, dsn: str) -> SchemaError:
    """Say which role lacks what, if that is behind *error*; else return it.

    PostgreSQL names neither the role nor the privilege, and to a role that may not
    use the schema it says that there are no tables.
    """
    try:
        with connect(dsn) as conn, conn.transaction():
            role = conn.execute(QUERIES["current_role"]).fetchall()[0][0]
            missing = _lacking(conn, role)
    except PgMemoryError:
        return error
    if not missing:
        return error
    return SchemaError(
        f"role {role} lacks {_told(missing)}: run `hermes-pgvector migrate "
        f"--admin-dsn - --runtime-role {role}` with the DSN of the tables' owner on "
        "standard input"
    )


def lacking(conn: psycopg.Connection[Any], role: str) -> str:
    """Phrase which privileges *role* lacks; "" is none."""
    return _told(_lacking(conn, role))


def _lacking(conn: psycopg.Connection[Any], role: str) -> list[tuple[str, str]]:
    return conn.execute(QUERIES["lacking"], {"role": role}).fetchall()


def _told(missing: Sequence[tuple[str, str]]) -> str:
    """Phrase what is missing: "SELECT, INSERT on memory_entries"."""
    wanted: dict[str, list[str]] = {}
    for privilege, what in missing:
        wanted.setdefault(what, []).append(privilege)
    told = [f"{', '.join(rights)} on {what}" for what, rights in wanted.items()]
    rest = f" and more on {len(told) - SHOWN} others" if len(told) > SHOWN else ""
    return "; ".join(told[:SHOWN]) + rest
