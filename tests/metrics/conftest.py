from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from metrics_kit import Agent, Mother, Served, configure

from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE


@pytest.fixture(autouse=True)
def nothing_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HERMES_MANAGED_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv(RUNTIME_DIR_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("HERMES_HOME", "PGMEMORY_DSN", "PGMEMORY_DSN_READ"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home(tmp_path: Path, dsn: str) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    configure(home, dsn=dsn)
    return home


@pytest.fixture
def folder(home: Path) -> Path:
    """Where the home's processes publish."""
    return home / "pgvector" / "metrics"


@pytest.fixture(scope="session")
def mother() -> Iterator[Mother]:
    mother = Mother()
    yield mother
    mother.end()


@pytest.fixture
def agent(mother: Mother, home: Path) -> Iterator[Callable[..., Agent]]:
    """Start agents; those still running afterwards are killed."""
    started: list[Agent] = []

    def agent() -> Agent:
        started.append(Agent(mother, home))
        return started[-1]

    yield agent
    for one in started:
        if one.lives:
            one.kill()


@pytest.fixture
def serve(home: Path) -> Iterator[Callable[..., Served]]:
    """Start exporters on free ports."""
    started: list[Served] = []

    def serve() -> Served:
        started.append(Served(home, "--port", "0"))
        return started[-1]

    yield serve
    for one in started:
        if one.process.returncode is None:
            one.end()
