"""What a run stands on: a folder, a server behind a proxy, an endpoint, a home."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg
from _quickstart import processes
from psycopg.conninfo import make_conninfo

from _chaos.endpoint import DIMENSION, Endpoint
from _chaos.proxy import Proxy
from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE, HomePaths
from hermes_pgmemory.store import migrate

DIES_WITHIN_S: Final = 10.0
MODEL: Final = EmbeddingModel(name="chaos", dimension=DIMENSION)


class Stage:
    """Everything that faults are done to."""

    def __init__(
        self, folder: Path, server: EmbeddedServer, proxy: Proxy, endpoint: Endpoint
    ) -> None:
        """Borrow the parts, which `stage` opened and closes."""
        self.folder = folder
        self.home = folder / "home"
        self.server = server
        self.proxy = proxy
        self.endpoint = endpoint
        self.paths = HomePaths(self.home)

    def configure(self) -> None:
        """Write the home's config.yaml: through the proxy, with the fake endpoint."""
        # The proxy is ours, not the account's that runs the server.
        past = {"host": str(self.proxy.folder), "requirepeer": ""}
        settings = {
            "dsn": make_conninfo(self.server.dsn, **past),
            "embed_url": self.endpoint.url,
            "embed_model": MODEL.name,
            "embed_protocol": "openai",
            "bulk_sync_on_init": False,
        }
        config = {"plugins": {"pgvector": settings}}  # JSON is YAML
        self.paths.config.write_text(json.dumps(config))

    def kill_server(self) -> None:
        """End the postmaster as the kernel would when memory runs out."""
        with suppress(FileNotFoundError, ProcessLookupError):
            note = self.server.status().data_dir / "postmaster.pid"
            pid = int(note.read_text().split()[0])
            os.kill(pid, signal.SIGKILL)
            # A dying one looks alive: a restart at this moment would find it running.
            deadline = time.monotonic() + DIES_WITHIN_S
            while time.monotonic() < deadline:
                os.kill(pid, 0)
                time.sleep(0.005)

    def terminate_backends(self) -> None:
        """End every client's backend, if the server is there."""
        with (
            suppress(psycopg.OperationalError),
            psycopg.connect(self.server.dsn, autocommit=True) as admin,
        ):
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )

    def rows(self, query: LiteralString) -> list[tuple[Any, ...]]:
        """Ask the server itself, past the proxy."""
        with psycopg.connect(self.server.dsn) as connection:
            return connection.execute(query).fetchall()


@contextmanager
def stage(*, keep: bool) -> Iterator[Stage]:
    """Yield a stage; with it goes every process and, without *keep*, every file."""
    # Short on purpose: a socket's path may not exceed 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    runtime = folder / "run"
    os.environ[RUNTIME_DIR_VARIABLE] = str(runtime)
    with ExitStack() as stack:
        if not keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(processes.end, folder, runtime)
        home = folder / "home"
        home.mkdir(mode=0o700)
        server = EmbeddedServer(HomePaths(home).server)
        stack.callback(_stop, server)
        server.ensure_running()
        migrate.apply(server.dsn, MODEL)
        proxy = Proxy(folder / "pg", server.status().socket_dir / ".s.PGSQL.5432")
        stack.callback(proxy.close)
        endpoint = Endpoint()
        stack.callback(endpoint.close)
        ready = Stage(folder, server, proxy, endpoint)
        ready.configure()
        yield ready


def _stop(server: EmbeddedServer) -> None:
    """Stop the server, also one whose postmaster has just been killed."""
    deadline = time.monotonic() + 20
    while server.stop() and time.monotonic() < deadline:
        time.sleep(0.05)
