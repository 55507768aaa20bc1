"""The real host for tests: homes with our door, gateways, command-line turns.

The chat model is the quickstart's scripted one; a line `CALL <tool> <json>` in a
message makes it call a tool. Everything else is real: hermes-agent, PostgreSQL, the
local embedding model. Each home, port and database is a test's own, so tests may run
side by side.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
sys.path.insert(0, str(Path(__file__).parent))

from _quickstart import processes
from _quickstart.chat_model import ChatModel
from _quickstart.gateway import Gateway
from _quickstart.host import Home
from host_kit import Database, MakeHome, Proxy

from hermes_pgmemory import door
from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import make_embedder
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store import migrate


@pytest.fixture(scope="session")
def runtime_dir() -> Iterator[Path]:
    """A folder for the sockets of this test process's embedding model.

    Here and in every child: a test must never talk to, or stop, the user's own.
    """
    folder = Path(tempfile.mkdtemp(prefix="pgr-", dir="/tmp"))
    patch = pytest.MonkeyPatch()
    patch.setenv("HERMES_PGMEMORY_RUNTIME_DIR", str(folder))
    yield folder
    patch.undo()
    processes.end(folder, folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def chat_model() -> Iterator[ChatModel]:
    """The scripted chat model that every host of this test process talks to."""
    with ChatModel() as model:
        yield model


@pytest.fixture(scope="session")
def local_model(runtime_dir: Path) -> EmbeddingModel:
    """The local embedding model, as `setup` writes it into a new database."""
    assert runtime_dir.is_dir()  # the model's server puts its socket there
    embedder = make_embedder(Settings())
    try:
        return embedder.probe(timeout_s=60)
    finally:
        embedder.close()


@contextmanager
def _database(
    superuser: psycopg.Connection, template: str = "template0"
) -> Iterator[Database]:
    name = f"pgmemory_host_{uuid4().hex[:12]}"
    names = {"new": sql.Identifier(name), "old": sql.Identifier(template)}
    clone = sql.SQL("CREATE DATABASE {new} TEMPLATE {old} STRATEGY FILE_COPY")
    superuser.execute(clone.format(**names))
    try:
        yield Database(make_conninfo(superuser.info.dsn, dbname=name))
    finally:
        drop = sql.SQL("DROP DATABASE {new} WITH (FORCE)")
        superuser.execute(drop.format(**names))


@pytest.fixture(scope="session")
def migrated(
    superuser: psycopg.Connection, local_model: EmbeddingModel
) -> Iterator[str]:
    """The name of a database that was migrated for the local model, and is empty."""
    with _database(superuser) as database:
        migrate.apply(database.dsn, local_model)
        yield str(conninfo_to_dict(database.dsn)["dbname"])


@pytest.fixture
def database(superuser: psycopg.Connection, migrated: str) -> Iterator[Database]:
    """A migrated database of this test's own."""
    with _database(superuser, migrated) as database:
        yield database


@pytest.fixture
def unmigrated(superuser: psycopg.Connection) -> Iterator[Database]:
    """An empty database: nobody ran `migrate`."""
    with _database(superuser) as database:
        yield database


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    """A way to this test's database that can be shut and opened."""
    with Proxy(database.dsn) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def shared_database(superuser: psycopg.Connection, migrated: str) -> Iterator[Database]:
    """A migrated database that a module's tests share, each in themes of its own."""
    with _database(superuser, migrated) as database:
        yield database


@pytest.fixture(scope="session")
def user_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What HOME is for every process of the host."""
    return tmp_path_factory.mktemp("user-home")


@pytest.fixture(scope="session")
def make_home(chat_model: ChatModel, runtime_dir: Path, user_home: Path) -> MakeHome:
    """Return a factory of homes with our door, ready for the host."""

    def make_home(
        folder: Path,
        settings: Mapping[str, Any],
        *,
        memory: Mapping[str, Any] | None = None,
    ) -> Home:
        """Make one in *folder*; *memory* adds to the host's own memory settings."""
        runtime = {"HERMES_PGMEMORY_RUNTIME_DIR": str(runtime_dir)}
        home = Home(path=folder, user_home=user_home, extra_env=runtime)
        home.write_config(chat_model.url, settings, memory or {})
        door.install(folder)
        return home

    return make_home


@pytest.fixture
def host_home(make_home: MakeHome, database: Database, tmp_path: Path) -> Home:
    """A home of this test's own, on this test's own database."""
    return make_home(tmp_path / "home", {"dsn": database.dsn})


@pytest.fixture(scope="module")
def gateway(
    request: pytest.FixtureRequest,
    make_home: MakeHome,
    shared_database: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    """A running gateway that a module's tests share; each speaks to its own theme.

    The module may have `SETTINGS` of ours that it runs with, and belongs to one
    process: a gateway takes seconds to start.
    """
    folder = tmp_path_factory.mktemp("gateway")
    # Many tests write into one MEMORY.md.
    room = {"memory_char_limit": 100_000, "user_char_limit": 100_000}
    settings = {"dsn": shared_database.dsn, **getattr(request.module, "SETTINGS", {})}
    home = make_home(folder / "home", settings, memory=room)
    with Gateway(home, folder / "gateway.log") as gateway:
        yield gateway


@pytest.fixture
def theme() -> str:
    """A theme that no other test uses; without digits, or it may be a phone number."""
    letters = str.maketrans("0123456789", "ghijklmnop")
    return f"theme-{uuid4().hex[:10].translate(letters)}"


@pytest.fixture
def start(
    host_home: Home, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Any]]:
    """Build agents' memory managers as the host does; all are shut down at the end."""
    from agent.memory_manager import MemoryManager  # noqa: PLC0415 - slow
    from plugins.memory import load_memory_provider  # noqa: PLC0415

    managers: list[MemoryManager] = []

    def start(session_id: str = "session-1", **kwargs: Any) -> MemoryManager:
        provider = load_memory_provider("pgvector")
        assert provider is not None
        assert provider.is_available()
        manager = MemoryManager()
        manager.add_provider(provider)
        common = {
            "platform": "cli",
            "hermes_home": str(host_home.path),
            "agent_context": "primary",
            "agent_identity": "default",
            "agent_workspace": "hermes",
        }
        manager.initialize_all(session_id=session_id, **{**common, **kwargs})
        managers.append(manager)
        return manager

    monkeypatch.setenv("HERMES_HOME", str(host_home.path))
    monkeypatch.setenv("HOME", str(host_home.user_home))
    yield start
    for manager in managers:
        manager.shutdown_all()
