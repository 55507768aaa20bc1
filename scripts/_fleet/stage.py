"""The fleet's database: a primary, two standbys, a pooler; and what may befall it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from _bench._stage import Embedder, embedder
from _quickstart import processes
from _servers.cluster import Cluster
from _servers.keeping import Servers, eventually
from _servers.pooler import Pooler
from psycopg.conninfo import make_conninfo

from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE
from hermes_pgmemory.store import migrate

DATABASE: Final = "memory"
MODEL: Final = EmbeddingModel(name="fleet", dimension=64)
_SERVER: Final = {"max_connections": "300", "autovacuum": "on"}
_POOL: Final = {
    "default_pool_size": 20,
    "max_client_conn": 2_000,
    # Its default, 15 s, would be the better part of the time without a primary.
    "server_login_retry": 1,
}


class Stage:
    """Three servers, and the pooler before whichever is the primary."""

    def __init__(
        self,
        folder: Path,
        servers: tuple[Cluster, Cluster, Cluster],
        pooler: Pooler,
        endpoint: Embedder,
    ) -> None:
        """Borrow the parts, which `stage` opened and closes."""
        self.folder = folder
        self.primary, self.first, self.second = servers
        self._pooler = pooler
        self._endpoint = endpoint
        self._promoted = "infinity"

    def home(self, number: int) -> Path:
        """Make the HERMES_HOME of one host."""
        home = self.folder / f"host-{number}"
        home.mkdir(mode=0o700)
        standbys = f"{self.first.folder},{self.second.folder}"
        settings = {
            "dsn": self._pooler.dsn(self.primary.dsn(DATABASE)),
            "dsn_read": make_conninfo(
                self.first.dsn(DATABASE),
                host=standbys,
                port="5432,5432",
                target_session_attrs="prefer-standby",
            ),
            "embed_url": self._endpoint.url,
            "embed_model": MODEL.name,
            "embed_protocol": "openai",
            "bulk_sync_on_init": False,
        }
        config = {"plugins": {"pgvector": settings}}  # JSON is YAML
        (home / "config.yaml").write_text(json.dumps(config))
        return home

    def lose_standby(self) -> None:
        """Lose the first standby; from now on each commit waits for the second."""
        self.first.lose()
        # What only the lost one had confirmed: nobody promotes who lacks that.
        ((lsn,),) = self.primary.ask("SELECT pg_current_wal_flush_lsn()::text")
        has = f"SELECT count(*) FROM pg_stat_replication WHERE flush_lsn >= '{lsn}'"
        eventually(lambda: self.primary.ask(has) == [(1,)])

    def lose_primary(self) -> None:
        """Lose the primary."""
        self.primary.lose()

    def promote(self) -> None:
        """Promote the second standby, and lead the pooler there."""
        self.second.ask("SELECT pg_promote()")
        eventually(lambda: self.second.ask("SELECT pg_is_in_recovery()") == [(False,)])
        ((self._promoted,),) = self.second.ask("SELECT now()::text")
        self._pooler.point_at(self.second.dsn())

    def hosts_storing(self) -> int:
        """Return how many processes stored something since the second took over."""
        query = (
            "SELECT count(DISTINCT epoch) FROM memory_journal_positions"
            f" WHERE updated_at > '{self._promoted}'"
        )
        return self.second.ask(query, DATABASE)[0][0]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Ask whoever is the primary at the end."""
        return self.second.ask(query, DATABASE)


@contextmanager
def stage() -> Iterator[Stage]:
    """Yield a stage; with it goes every process and every file."""
    folder = Path(tempfile.mkdtemp(prefix="fleet-"))
    folder.chmod(0o711)  # the servers' account must get through to its own
    servers = Servers(within=folder)
    runtime = folder / "run"
    os.environ[RUNTIME_DIR_VARIABLE] = str(runtime)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(processes.end, folder, runtime)
        primary = _cluster(stack, servers)
        primary.ask(f"CREATE DATABASE {DATABASE}")
        migrate.apply(primary.dsn(DATABASE), MODEL)
        first = _cluster(stack, servers, of=primary)
        second = _cluster(stack, servers, of=primary)
        # Not before: a standby would inherit it, and wait for others once promoted.
        primary.ask("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
        primary.ask("SELECT pg_reload_conf()")
        pooler = Pooler(servers, primary.dsn(), **_POOL)
        stack.callback(pooler.kill)
        endpoint = stack.enter_context(
            embedder(dimension=MODEL.dimension, latency_ms=5)
        )
        yield Stage(folder, (primary, first, second), pooler, endpoint)


def _cluster(stack: ExitStack, servers: Servers, of: Cluster | None = None) -> Cluster:
    cluster = Cluster(servers, of=of, **_SERVER)
    stack.callback(cluster.close)
    return cluster
