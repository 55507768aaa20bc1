"""What takes long, in a database whose transactions usually may not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store import dump, indexing, migrate, online

LIMIT_MS = 1_000
LIMITS = ["transaction_timeout", "idle_in_transaction_session_timeout"]
LONG = f"SELECT pg_sleep({1.3 * LIMIT_MS / 1000})"


@contextmanager
def conversion(dsn: str) -> Iterator[None]:
    with online.opened(dsn, "convert") as conn:
        conn.execute(LONG)
        yield


@pytest.fixture
def earlier(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Limit all transactions but those of one connection, which was there before."""
    name = sql.Identifier(str(conninfo_to_dict(dsn)["dbname"]))
    limited = sql.SQL("ALTER DATABASE {} SET {} = {}")
    with psycopg.connect(dsn, autocommit=True) as conn:
        for (limit,) in conn.execute(
            "SELECT name FROM pg_settings WHERE name = ANY (%s)", [LIMITS]
        ).fetchall():
            conn.execute(limited.format(name, sql.Identifier(limit), LIMIT_MS))
        yield conn


@pytest.mark.parametrize(
    "held", [dump.moment, dump.scratch, indexing.opened, conversion]
)
def test_what_is_held_beside_long_work_outlives_the_usual_limits(
    dsn: str,
    earlier: psycopg.Connection[Any],
    held: Callable[[str], AbstractContextManager[object]],
):
    with held(dsn):
        earlier.execute(LONG)


def test_a_migration_that_waits_for_another_outlives_the_usual_limits(
    dsn: str, earlier: psycopg.Connection[Any]
):
    lock = "hashtextextended('hermes-pgmemory migrate', 0)"
    model = EmbeddingModel(name="test", dimension=3)
    with ThreadPoolExecutor() as pool:
        earlier.execute(f"SELECT pg_advisory_lock({lock})")
        waiting = pool.submit(migrate.apply, dsn, model)
        earlier.execute(LONG)
        earlier.execute(f"SELECT pg_advisory_unlock({lock})")
        assert waiting.result() == []
