from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

sys.path.insert(0, str(Path(__file__).parent))

from moving_kit import Database
from peers_kit import BOB, KEY

from command_kit import Ran
from hermes_pgmemory import cli
from hermes_pgmemory.models import Subject
from hermes_pgmemory.moving.values import Aim
from hermes_pgmemory.session import Session
from hermes_pgmemory.subjects import Veil


@pytest.fixture(autouse=True)
def nothing_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HERMES_MANAGED_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("HERMES_HOME", "PGMEMORY_DSN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def pool(server: str, template: str) -> Iterator[Callable[[int], str]]:
    """Databases that all tests here use one after the other; a clone costs more."""
    made: dict[int, str] = {}

    def execute(statement: LiteralString, name: str) -> None:
        names = [sql.Identifier(name), sql.Identifier(template)]
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(sql.SQL(statement).format(*names))

    def pool(number: int) -> str:
        if number not in made:
            name = made[number] = f"pgmemory_{uuid4().hex[:12]}"
            execute("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name)
        return make_conninfo(server, dbname=made[number])

    yield pool
    for name in made.values():
        execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


@pytest.fixture
def new(pool: Callable[[int], str], tmp_path: Path) -> Iterator[Callable[[], Database]]:
    """Empty, migrated databases, each with a home that is configured for it."""
    made: list[Database] = []

    def new() -> Database:
        number = len(made)
        home = tmp_path / f"home{number}"
        home.mkdir()
        dsn = pool(number)
        config = {"plugins": {"pgvector": {"dsn": dsn, "turn_min_chars": 5}}}
        (home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        made.append(Database(dsn, home))
        made[-1].empty(key=f"{number}a" * 32)
        return made[-1]

    yield new
    for database in made:
        database.store.close()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `hermes-pgvector VERB ...` in this process, for a database's home."""

    def run(database: Database, *words: object) -> Ran:
        capsys.readouterr()
        try:
            status = cli.main([*map(str, words), "--home", str(database.home)])
        except SystemExit as exc:
            status = int(exc.code or 0)
        captured = capsys.readouterr()
        return Ran(int(status), captured.out, captured.err)

    return run


@pytest.fixture
def aim(tmp_path: Path) -> Aim:
    section = {"plugins": {"pgvector": {"turn_min_chars": 5}}}
    (tmp_path / "config.yaml").write_text(json.dumps(section))
    return Aim(home=tmp_path, key=KEY)


@pytest.fixture
def bob(tmp_path: Path) -> Subject:
    """Whose rows are Bob's, for an agent that he writes to."""
    live = {
        "gateway_session_key": f"agent:main:telegram:dm:{BOB}",
        "platform": "telegram",
        "chat_type": "dm",
        "user_id": BOB,
        "chat_id": BOB,
        "hermes_home": str(tmp_path),
    }
    session = Session.begin("s1", live).behind(Veil(bytes.fromhex(KEY), is_final=True))
    subject = session.speaker.subject
    assert subject
    return subject
