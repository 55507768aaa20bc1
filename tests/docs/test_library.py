"""The page on the library: its example runs and prints what it says."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from hermes_pgmemory.embedding_models import LOCAL_MODEL, profile_for
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store import migrate

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "library.md"


@pytest.fixture
def prepared(new_database: Callable[..., str]) -> str:
    """A database that `setup` has prepared for the local model."""
    dsn = new_database()
    profile = profile_for(LOCAL_MODEL)
    model = EmbeddingModel(
        name=LOCAL_MODEL,
        dimension=384,
        query_prefix=profile.query_prefix,
        document_prefix=profile.document_prefix,
    )
    migrate.apply(dsn, model)
    return dsn


def test_the_example_goes_as_it_says(
    prepared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MEMORY_DSN", prepared)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ran = doctest.testfile(str(PAGE), module_relative=False)
    assert (ran.failed, ran.attempted > 10) == (0, True)
    with psycopg.connect(prepared) as conn:
        turns = conn.execute("SELECT session_id FROM conversations").fetchall()
    assert turns == [("call 2026-05-03",)] * 2
