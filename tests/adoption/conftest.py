from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

sys.path.insert(0, str(Path(__file__).parent))

import adoption_kit as kit

from hermes_pgmemory import cli, engines
from hermes_pgmemory.provider import PgvectorProvider
from hermes_pgmemory.store import Store, migrate


@pytest.fixture(autouse=True)
def nothing_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HERMES_MANAGED_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("HERMES_HOME", "PGMEMORY_DSN", "PGMEMORY_DSN_READ"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def hermes(server: str) -> Iterator[None]:
    """The role that the originals grant to; 0.4.0 fails where there is none."""
    with psycopg.connect(server, autocommit=True) as admin:
        try:
            admin.execute("CREATE ROLE hermes LOGIN")
        except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
            yield  # somebody else's
            return
        yield
        # Another run on the same server may use it still.
        with suppress(psycopg.errors.DependentObjectsStillExist):
            admin.execute("DROP ROLE hermes")


@pytest.fixture(scope="session")
def filled(
    server: str,
    tmp_path_factory: pytest.TempPathFactory,
    hermes: None,  # noqa: ARG001 - must exist
) -> Iterator[Callable[[str], str]]:
    """Return the name of a template: a release's database with its rows."""
    made: dict[str, str] = {}
    folder = tmp_path_factory.mktemp("releases")

    def filled(release: str) -> str:
        if release not in made:
            name = f"pgmemory_old_{uuid4().hex[:8]}"
            with psycopg.connect(server, autocommit=True) as admin:
                admin.execute(
                    sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(
                        sql.Identifier(name)
                    )
                )
            made[release] = name
            dsn = make_conninfo(server, dbname=name)
            kit.create(dsn, kit.install(release, folder))
            with kit.Old(dsn) as old:
                old.fill()
        return made[release]

    yield filled
    with psycopg.connect(server, autocommit=True) as admin:
        for name in made.values():
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            admin.execute(drop.format(sql.Identifier(name)))


@pytest.fixture
def old_of(
    filled: Callable[[str], str], new_database: Callable[..., str]
) -> Callable[[str], str]:
    """Return the DSN of a private, filled database of a release."""
    return lambda release: new_database(template=filled(release))


@pytest.fixture
def old(old_of: Callable[[str], str]) -> str:
    return old_of("1.0.0")


@pytest.fixture
def adopted(old: str) -> str:
    migrate.upgrade(old, kit.MODEL)
    return old


@pytest.fixture
def store_on() -> Iterator[Callable[[str], Store]]:
    made: list[Store] = []

    def store_on(dsn: str) -> Store:
        made.append(Store(dsn))
        return made[-1]

    yield store_on
    for store in made:
        store.close()


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run `hermes-pgvector VERB ...` in this process; returns status, out and err."""

    def run(*words: str, dsn: str, **settings: Any) -> tuple[int, str, str]:
        section = {"dsn": dsn, "embed_url": "http://127.0.0.1:9"} | settings
        config = {"plugins": {"pgvector": section}}
        (tmp_path / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        capsys.readouterr()
        try:
            status = cli.main([*words, "--home", str(tmp_path)])
        except SystemExit as exc:
            status = int(exc.code or 0)
        captured = capsys.readouterr()
        return int(status), captured.out, captured.err

    return run


@pytest.fixture
def endpoint() -> Iterator[kit.Endpoint]:
    server = kit.Endpoint()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def agent_on(
    tmp_path: Path, endpoint: kit.Endpoint
) -> Iterator[Callable[..., PgvectorProvider]]:
    """Start agents of one home on a database, as the host does."""
    made: list[PgvectorProvider] = []
    home = tmp_path / "agents"
    (home / "memories").mkdir(parents=True)

    def agent_on(dsn: str, session_id: str = "s1", **kwargs: Any) -> PgvectorProvider:
        section = {"dsn": dsn, "embed_url": endpoint.url}
        config = {"plugins": {"pgvector": section}}
        (home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        given = {
            "platform": "api_server",
            "hermes_home": str(home),
            "agent_context": "primary",
            "agent_identity": "work",
        }
        agent = PgvectorProvider()
        made.append(agent)
        agent.initialize(session_id, **(given | kwargs))
        return agent

    yield agent_on
    for agent in made:
        agent.shutdown()
    engines.close_all()


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Return a function that polls until a condition holds, or fails the test."""

    def eventually(condition: Callable[[], Any], *, within_s: float = 30) -> Any:
        deadline = monotonic() + within_s
        never = threading.Event()
        while not (result := condition()):
            assert monotonic() < deadline, f"not within {within_s} s"
            never.wait(0.02)
        return result

    return eventually


@pytest.fixture
def contact_on(
    agent_on: Callable[..., PgvectorProvider],
    tmp_path: Path,
    eventually: Callable[..., Any],
) -> Callable[..., PgvectorProvider]:
    """Start an agent for a contact, in a home that has met its database before."""

    def contact_on(dsn: str, **kwargs: Any) -> PgvectorProvider:
        agent_on(dsn)
        eventually(lambda: list((tmp_path / "agents").rglob("subject.key")))
        return agent_on(dsn, "d9", **kwargs)

    return contact_on
