"""What stands between agents and their database, and agents that do not mind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_pgmemory.provider import PgvectorProvider

PATIENCE_S = 30.0
ADMIN = {"user": "pgbouncer", "password": "console"}
_INIT = [
    "--auth=trust",
    "--encoding=UTF8",
    "--no-sync",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
]
_HBA = "local all all trust\nlocal replication all trust\n"


def eventually(condition: Callable[[], Any], *, within_s: float = PATIENCE_S) -> Any:
    """Wait until *condition* holds and return it; fail the test if it never does."""
    deadline = monotonic() + within_s
    never = threading.Event()
    while not (result := condition()):
        if monotonic() > deadline:
            pytest.fail(f"not within {within_s:.0f} s: {condition()!r}")
        never.wait(0.02)
    return result


def program(name: str) -> str:
    """Return where a program of Debian's is; a missing one is a failure."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which(name, path=path)
    return found or pytest.fail(f"no {name} here: `scripts/test` installs it")


@dataclass(frozen=True)
class Ran:
    """What one command did."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Home:
    """One HERMES_HOME and its agents."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.agents: list[PgvectorProvider] = []
        path.mkdir()

    def configure(self, **settings: Any) -> None:
        config = {"plugins": {"pgvector": settings}}
        text = json.dumps(config, ensure_ascii=False)  # but for escapes, JSON is YAML
        (self.path / "config.yaml").write_text(text)

    def agent(self, theme: str, **kwargs: Any) -> PgvectorProvider:
        agent = PgvectorProvider()
        self.agents.append(agent)
        said = {"platform": "cli", "agent_context": "primary"} | kwargs
        agent.initialize(
            "s1", hermes_home=str(self.path), gateway_session_key=theme, **said
        )
        return agent


def add(agent: PgvectorProvider, content: str) -> None:
    """Have the agent's memory tool add a note."""
    agent.on_memory_write("add", "memory", content, {})


def recall(agent: PgvectorProvider, query: str) -> tuple[list[str], str | None]:
    """Return what the recall tool finds, and why that may not be all."""
    answer = json.loads(
        agent.handle_tool_call("recall_memory", {"query": query, "limit": 20})
    )
    return [hit["content"] for hit in answer["results"]], answer.get("degraded")


def rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    """Look past everything between us and the database."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


def contents(dsn: str) -> list[str]:
    """Return the notes in the database, in the order of their arrival."""
    found = rows(dsn, "SELECT content FROM memory_entries ORDER BY id")
    return [content for (content,) in found]


class Cluster:
    """A PostgreSQL server of a test's own, primary or standby."""

    SETTINGS: Final = {
        "listen_addresses": "",
        # Nothing here must survive a power cut; a standby must not be waited for long.
        "fsync": "off",
        "full_page_writes": "off",
        "autovacuum": "off",
        "max_connections": "60",
        "wal_receiver_status_interval": "1s",
    }

    def __init__(self, servers: Any, *, of: Cluster | None = None) -> None:
        """Make one: an empty primary, or the standby of another."""
        self._servers = servers
        self.folder: Path = servers.folder()
        self.data = self.folder / "data"
        if of is None:
            self._run("initdb", "--pgdata", self.data, "--username=postgres", *_INIT)
            (self.data / "pg_hba.conf").write_text(_HBA)
        else:
            source = ["--host", of.folder, "--username=postgres"]
            how = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
            self._run("pg_basebackup", "--pgdata", self.data, *source, *how)
        self._keepers: list[subprocess.Popen[bytes]] = []
        self.start()

    def _run(self, name: str, *words: object) -> None:
        command = [*self._servers.prefix, self._servers.bin / name, *words]
        subprocess.run(
            list(map(str, command)), check=True, cwd="/", capture_output=True
        )

    def start(self) -> None:
        """Start it, again after `kill`."""
        options = {**self.SETTINGS, "unix_socket_directories": self.folder}
        flags = [word for k, v in options.items() for word in ("-c", f"{k}={v}")]
        command = [str(self._servers.bin / "postgres"), "-D", str(self.data), *flags]
        self._keepers.append(self._servers.keep(self.folder, command))
        eventually(self._answers)

    def _answers(self) -> bool:
        try:
            self.ask("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def dsn(self, database: str = "postgres") -> str:
        """Return where a database of this server is."""
        return make_conninfo(
            host=str(self.folder), port=5432, user="postgres", dbname=database
        )

    def ask(self, query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement as the administrator."""
        return rows(self.dsn(database), query)

    def kill(self) -> None:
        """End it like a power cut, but for what the kernel holds."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        eventually(lambda: not self._answers())

    def close(self) -> None:
        """End it and remove its files."""
        for keeper in self._keepers:
            keeper.communicate()


class Pooler:
    """A PgBouncer in transaction mode, with two connections per database."""

    def __init__(
        self,
        servers: Any,
        server: str,
        *,
        files: Mapping[str, str] | None = None,
        **more: object,
    ) -> None:
        """Start one before *server*, with *files* in its folder and *more* settings.

        `{folder}` in a setting is that folder.
        """
        self._files = files or {}
        self._servers = servers
        self.folder: Path = servers.folder()
        self._server = conninfo_to_dict(server)
        self.settings: dict[str, object] = {
            "unix_socket_dir": self.folder,
            "listen_port": 6432,
            "auth_type": "any",
            "admin_users": ADMIN["user"],
            "pool_mode": "transaction",
            "default_pool_size": 2,
            "max_client_conn": 500,
            "logfile": self.folder / "pgbouncer.log",
        } | more
        self._keeper: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, again after `kill`, with the same settings."""
        if not self.folder.exists():
            self._servers.folder().rename(self.folder)
        config = self.folder / "pgbouncer.ini"
        for name, text in {**self._files, config.name: self._config()}.items():
            (self.folder / name).write_text(text)
        command = [program("pgbouncer"), "-q", str(config)]
        self._keeper = self._servers.keep(self.folder, command, ending="KILL")
        eventually(self._answers)

    def _config(self) -> str:
        # Who logs in to the pooler does so as the server's administrator.
        login: Mapping[str, Any] = {"user": "postgres", **self._server}
        words = ("host", "port", "user", "password")
        target = make_conninfo(**{key: login[key] for key in words if key in login})
        lines = [
            f"{key} = {value}".format(folder=self.folder)
            for key, value in self.settings.items()
        ]
        return "\n".join(["[databases]", f"* = {target}", "[pgbouncer]", *lines, ""])

    def _answers(self) -> bool:
        try:
            self.admin("SHOW VERSION")
        except psycopg.OperationalError:
            return False
        return True

    def admin(self, command: str) -> list[tuple[Any, ...]]:
        """Run a command of the pooler's own console."""
        console = make_conninfo(self.dsn("dbname=pgbouncer"), **ADMIN)
        with psycopg.connect(console, autocommit=True) as connection:
            # The console speaks the simple protocol only.
            cursor = psycopg.ClientCursor(connection)
            cursor.execute(command)
            return cursor.fetchall() if cursor.description else []

    def dsn(self, of: str) -> str:
        """Return *of*, by way of this pooler."""
        name = conninfo_to_dict(of)["dbname"]
        return make_conninfo(
            host=str(self.folder),
            port=self.settings["listen_port"],
            user="postgres",
            dbname=name,
        )

    def kill(self) -> None:
        """End it at once; its clients' connections break."""
        if self._keeper is not None:
            self._keeper.communicate()
            self._keeper = None
