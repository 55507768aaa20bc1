"""The page on the library: its example runs and prints what it says."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "library.md"


@pytest.fixture
def prepared(new_database: Callable[..., str], local_template: str) -> str:
    """A database that `setup` has prepared for the local model."""
    return new_database(template=local_template)


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
