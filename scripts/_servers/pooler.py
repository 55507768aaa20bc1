"""A PgBouncer of one's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from _servers.keeping import Servers, eventually

ADMIN: Final = {"user": "pgbouncer", "password": "console"}


class Missing(AssertionError):
    """A program that is needed is not installed."""


def program(name: str) -> str:
    """Return where a program of Debian's is.

    Raises:
        Missing: It is not installed.
    """
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    if (found := shutil.which(name, path=path)) is None:
        raise Missing(f"no {name} here: `scripts/test` installs it")
    return found


class Pooler:
    """A PgBouncer in transaction mode, with two connections per database."""

    def __init__(
        self,
        servers: Servers,
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

    @property
    def _file(self) -> Path:
        return self.folder / "pgbouncer.ini"

    def start(self) -> None:
        """Start it, again after `kill`, with the same settings."""
        if not self.folder.exists():
            self._servers.folder().rename(self.folder)
        for name, text in self._files.items():
            (self.folder / name).write_text(text)
        self._file.write_text(self._config())
        command = [program("pgbouncer"), "-q", str(self._file)]
        self._keeper = self._servers.keep(self.folder, command, ending="KILL")
        eventually(self._answers)

    def point_at(self, server: str) -> None:
        """Lead to another server from now on; clients keep their connections."""
        self._server = conninfo_to_dict(server)
        self._file.write_text(self._config())
        self.admin("RELOAD")

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
