"""What stands between agents and their database, and agents that do not mind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_pgmemory.provider import PgvectorProvider

PATIENCE_S = 30.0


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
        (self.path / "config.yaml").write_text(json.dumps(config))  # JSON is YAML

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
        return connection.execute(query).fetchall()


def contents(dsn: str) -> list[str]:
    """Return the notes in the database, in the order of their arrival."""
    found = rows(dsn, "SELECT content FROM memory_entries ORDER BY id")
    return [content for (content,) in found]


class Pooler:
    """A PgBouncer in transaction mode, with two connections per database."""

    def __init__(self, servers: Any, server: str, **more: object) -> None:
        self._servers = servers
        self.folder: Path = servers.folder()
        self._server = conninfo_to_dict(server)
        self._more = more
        self._keeper: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, again after `kill`, with the same settings."""
        if not self.folder.exists():
            self._servers.folder().rename(self.folder)
        self._prepare()
        config = self.folder / "pgbouncer.ini"
        config.write_text(self._config())
        command = [program("pgbouncer"), "-q", str(config)]
        self._keeper = self._servers.keep(self.folder, command, ending="KILL")
        eventually(self._answers)

    def _prepare(self) -> None:
        """Put into the folder what the settings name."""

    def _config(self) -> str:
        # Who logs in to the pooler does so as the server's administrator.
        login: Mapping[str, Any] = {"user": "postgres", **self._server}
        words = ("host", "port", "user", "password")
        target = make_conninfo(**{key: login[key] for key in words if key in login})
        settings: dict[str, object] = {
            "unix_socket_dir": self.folder,
            "listen_port": 6432,
            "auth_type": "any",
            "admin_users": "pgbouncer",
            "pool_mode": "transaction",
            "default_pool_size": 2,
            "max_client_conn": 500,
            "logfile": self.folder / "pgbouncer.log",
        } | self._more
        lines = [f"{key} = {value}" for key, value in settings.items()]
        return "\n".join(["[databases]", f"* = {target}", "[pgbouncer]", *lines, ""])

    def _answers(self) -> bool:
        try:
            self.admin("SHOW VERSION")
        except psycopg.OperationalError:
            return False
        return True

    def admin(self, command: str) -> list[tuple[Any, ...]]:
        """Run a command of the pooler's own console."""
        console = make_conninfo(self.dsn("dbname=pgbouncer"), user="pgbouncer")
        with psycopg.connect(console, autocommit=True) as connection:
            # The console speaks the simple protocol only.
            cursor = psycopg.ClientCursor(connection)
            cursor.execute(command)
            return cursor.fetchall() if cursor.description else []

    def dsn(self, of: str) -> str:
        """Return *of*, by way of this pooler."""
        name = conninfo_to_dict(of)["dbname"]
        return make_conninfo(
            host=str(self.folder), port=6432, user="postgres", dbname=name
        )

    def kill(self) -> None:
        """End it at once; its clients' connections break."""
        if self._keeper is not None:
            self._keeper.communicate()
            self._keeper = None
