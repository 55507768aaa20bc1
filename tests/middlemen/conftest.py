"""A home of a test's own, the command run on it, and poolers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from middlemen_kit import Home, Pooler, Ran

from hermes_pgmemory import cli, engines


@pytest.fixture(autouse=True)
def nothing_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HERMES_MANAGED_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("HERMES_HOME", "PGMEMORY_DSN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    for agent in home.agents:
        agent.shutdown()
    engines.close_all()


@pytest.fixture
def run(home: Home, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `hermes-pgvector VERB ...` on the home, in this process."""

    def run(*words: str) -> Ran:
        capsys.readouterr()
        try:
            status = cli.main([*words, "--home", str(home.path)])
        except SystemExit as exc:
            status = int(exc.code or 0)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture
def pooler(servers: Any, server: str) -> Iterator[Pooler]:
    """A PgBouncer between the test and its databases."""
    pooler = Pooler(servers, server)
    yield pooler
    pooler.kill()
