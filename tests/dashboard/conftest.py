from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "maintenance"))

from dashboard_kit import Fleet, furnish
from maintenance_kit import Endpoint

from hermes_pgmemory.config import Settings
from hermes_pgmemory.dashboard import Serving, Sources
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE, HomePaths


@pytest.fixture(autouse=True)
def nothing_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HERMES_MANAGED_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv(RUNTIME_DIR_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("HERMES_HOME", "PGMEMORY_DSN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def endpoint() -> Iterator[Endpoint]:
    import threading  # noqa: PLC0415

    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def fleet(
    server: str,
    template: str,
    endpoint: Endpoint,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Fleet]:
    """A home and a database in which three themes have lived for a month."""
    name = f"pgmemory_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as admin:
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        admin.execute(make.format(sql.Identifier(name), sql.Identifier(template)))
    dsn = make_conninfo(server, dbname=name)
    home = tmp_path_factory.mktemp("fleet")
    yield furnish(home, dsn, endpoint.url)
    with psycopg.connect(server, autocommit=True) as admin:
        drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
        admin.execute(drop.format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def serve(fleet: Fleet) -> Iterator[Callable[..., Serving]]:
    """Serve the fleet, or an empty home on another database."""
    with ExitStack() as ending:

        def serve(
            *,
            show_private: bool = False,
            dsn: str = fleet.dsn,
            home: Path = fleet.home,
        ) -> Serving:
            settings = Settings(embed_url=fleet.embed_url, embed_model="test")
            made = Sources(HomePaths(home), settings, dsn, show_private=show_private)
            sources = ending.enter_context(closing(made))
            return ending.enter_context(closing(Serving(sources, port=0)))

        yield serve


@pytest.fixture
def dsn_admin(fleet: Fleet) -> Iterator[psycopg.Connection]:
    """A superuser's connection to the fleet's database."""
    with psycopg.connect(fleet.dsn, autocommit=True) as conn:
        yield conn
