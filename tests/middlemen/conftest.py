"""A home of a test's own, the command run on it, and poolers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

sys.path.insert(0, str(Path(__file__).parent))

from middlemen_kit import Cluster, Home, Pooler

from command_kit import Ran
from hermes_pgmemory import cli, engines
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store import migrate


@pytest.fixture(autouse=True)
def nothing_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HERMES_MANAGED_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("HERMES_HOME", "PGMEMORY_DSN", "PGMEMORY_DSN_READ"):
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


@dataclass(frozen=True)
class Pair:
    """A primary and its standby, with one migrated database."""

    primary: Cluster
    standby: Cluster
    database: str = "memory"

    @property
    def dsn(self) -> str:
        """The primary's database."""
        return self.primary.dsn(self.database)

    @property
    def dsn_read(self) -> str:
        """The standby's."""
        return self.standby.dsn(self.database)

    @property
    def dsn_both(self) -> str:
        """Whichever of the two can be written to."""
        hosts = f"{self.primary.folder},{self.standby.folder}"
        return make_conninfo(
            self.dsn,
            host=hosts,
            port="5432,5432",
            target_session_attrs="read-write",
        )


@contextmanager
def _pair(servers: Any) -> Iterator[Pair]:
    with ExitStack() as stack:
        primary = Cluster(servers)
        stack.callback(primary.close)
        standby = Cluster(servers, of=primary)
        stack.callback(standby.close)
        pair = Pair(primary, standby)
        primary.ask(f"CREATE DATABASE {pair.database}")
        model = EmbeddingModel(name="multilingual-e5-small-q4", dimension=384)
        migrate.apply(pair.dsn, model)
        yield pair


@pytest.fixture
def pair(servers: Any) -> Iterator[Pair]:
    """Two servers that one test alone may break."""
    with _pair(servers) as pair:
        yield pair


@pytest.fixture(scope="module")
def _lasting_pair(servers: Any) -> Iterator[Pair]:
    with _pair(servers) as pair:
        yield pair


@pytest.fixture
def whole_pair(_lasting_pair: Pair) -> Pair:
    """Two servers that the tests of a file share, empty; leave them running."""
    clear = "TRUNCATE memory_entries, conversations, memory_journal_positions"
    with psycopg.connect(_lasting_pair.dsn) as connection:
        connection.execute(clear)
    return _lasting_pair


@pytest.fixture
def pooler(servers: Any, server: str) -> Iterator[Pooler]:
    """A PgBouncer between the test and its databases."""
    pooler = Pooler(servers, server)
    yield pooler
    pooler.kill()
