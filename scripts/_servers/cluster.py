"""A PostgreSQL server of one's own, primary or standby."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from _servers.keeping import Servers, eventually

INIT: Final = (
    "--auth=trust",
    "--encoding=UTF8",
    "--no-sync",
    "--no-instructions",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
)
HBA: Final = "local all all trust\nlocal replication all trust\n"


def rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    """Look past everything between us and the database."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


class Cluster:
    """One server, reached by a socket in its folder."""

    SETTINGS: Final = {
        "listen_addresses": "",
        # Nothing here must survive a power cut; a standby must not be waited for long.
        "fsync": "off",
        "full_page_writes": "off",
        "autovacuum": "off",
        "max_connections": "60",
        "wal_receiver_status_interval": "1s",
        # Files, which go with the folder; a killed server leaves the others behind.
        "dynamic_shared_memory_type": "mmap",
    }

    def __init__(
        self,
        servers: Servers,
        *,
        of: Cluster | None = None,
        hba: str = HBA,
        **settings: str,
    ) -> None:
        """Make one: an empty primary that lets *hba* in, or the standby of another."""
        self._servers = servers
        self._settings = {**self.SETTINGS, **settings}
        self.folder: Path = servers.folder()
        self.data = self.folder / "data"
        self._keepers: list[subprocess.Popen[bytes]] = []
        with ExitStack() as failed:
            failed.callback(shutil.rmtree, self.folder, ignore_errors=True)
            failed.callback(self.close)
            self._make(of, hba)
            self.start()
            failed.pop_all()

    def _make(self, of: Cluster | None, hba: str) -> None:
        if of is None:
            self._run("initdb", "--pgdata", self.data, "--username=postgres", *INIT)
            (self.data / "pg_hba.conf").write_text(hba)
            return
        source = ["--host", of.folder, "--username=postgres"]
        how = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        self._run("pg_basebackup", "--pgdata", self.data, *source, *how)

    def _run(self, name: str, *words: object) -> None:
        command = [*self._servers.prefix, self._servers.bin / name, *words]
        subprocess.run(
            list(map(str, command)), check=True, cwd="/", capture_output=True
        )

    def start(self) -> None:
        """Start it, again after `kill`."""
        options = {**self._settings, "unix_socket_directories": self.folder}
        flags = [word for k, v in options.items() for word in ("-c", f"{k}={v}")]
        command = [str(self._servers.bin / "postgres"), "-D", str(self.data), *flags]
        self._keepers.append(self._servers.keep(self.folder, command))
        eventually(self.answers)

    def answers(self) -> bool:
        """Tell whether it takes connections."""
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

    def _pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def kill(self) -> None:
        """End it like a power cut, but for what the kernel holds."""
        os.kill(self._pid(), signal.SIGQUIT)
        eventually(lambda: not self.answers())

    def lose(self) -> None:
        """Lose the whole node: SIGKILL to every process of it."""
        postmaster = psutil.Process(self._pid())
        # Stopped first, so that it starts no further one meanwhile.
        postmaster.suspend()
        for process in [*postmaster.children(recursive=True), postmaster]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        eventually(lambda: not self.answers())

    def close(self) -> None:
        """End it and remove its files."""
        for keeper in self._keepers:
            keeper.communicate()
