"""What every benchmark needs: a throw-away server, a fake embedder, a home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store import migrate

HERE = Path(__file__).parent
MODEL = EmbeddingModel(
    name="nomic-embed-text",
    dimension=768,
    query_prefix="search_query: ",
    document_prefix="search_document: ",
)

SOME_VECTORS = """
CREATE TABLE some_vectors AS
SELECT m, array_agg(random() - 0.5)::halfvec(384) AS vector
  FROM generate_series(0, 1999) AS m, generate_series(1, 384)
 GROUP BY m
"""
"""Vectors for any number of rows, which nobody could tell from a model's."""


def say(text: str) -> None:
    """Tell a person."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def stage() -> Iterator[Stage]:
    """Yield a folder with a running server in it; nothing of it is left after."""
    folder = Path(tempfile.mkdtemp(prefix="pgm-"))
    os.environ["HERMES_PGMEMORY_RUNTIME_DIR"] = str(folder / "run")
    server = EmbeddedServer(folder / "postgres")
    try:
        server.ensure_running()
        yield Stage(folder, server.dsn)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Stage:
    """A running server, and homes and databases made on it."""

    def __init__(self, folder: Path, dsn: str) -> None:
        """Use *folder* for homes and *dsn* as administrator."""
        self.folder = folder
        self.dsn = dsn

    def database(self, name: str) -> str:
        """Make an empty database with the vector extension; return its DSN."""
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        dsn = make_conninfo(self.dsn, dbname=name)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
        return dsn

    def ours(self, name: str, model: EmbeddingModel = MODEL) -> str:
        """Make a database with our schema."""
        dsn = self.database(name)
        migrate.apply(dsn, model)
        return dsn

    def reference(self, name: str, python: str) -> str:
        """Make a database with the reference's own migrations."""
        dsn = self.database(name)
        where = subprocess.check_output(
            [python, "-c", "import hermes_pgvector as p; print(p.__path__[0])"],
            text=True,
        ).strip()
        with psycopg.connect(dsn, autocommit=True) as connection:
            if not connection.execute(
                "SELECT 1 FROM pg_roles WHERE rolname = 'hermes'"
            ).fetchone():
                connection.execute("CREATE ROLE hermes LOGIN")
            for path in sorted((Path(where) / "migrations").glob("*.sql")):
                connection.execute(path.read_bytes())
        return dsn

    def home(self, name: str, settings: dict[str, Any]) -> Path:
        """Make a HERMES_HOME whose config.yaml holds *settings*."""
        home = self.folder / name
        home.mkdir()
        # JSON is YAML.
        config = {"memory": {"provider": "pgvector"}, "plugins": {"pgvector": settings}}
        (home / "config.yaml").write_text(json.dumps(config))
        return home


@contextmanager
def embedder(*, dimension: int = 768, latency_ms: float = 10) -> Iterator[Embedder]:
    """Run a fake embedding endpoint in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "_embedder.py"), str(dimension), str(latency_ms)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        # An interrupt from the keyboard is for the driver, who ends this one.
        start_new_session=True,
    )
    try:
        yield Embedder(process)
    finally:
        process.terminate()
        process.communicate()


class Embedder:
    """The endpoint's address, and how many requests it has served."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Read the port the process listens on."""
        self._process = process
        assert process.stdout is not None
        self.url = f"http://127.0.0.1:{int(process.stdout.readline())}"

    def requests(self) -> int:
        """Return the number of requests served so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("count\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def drive(python: str, script: str, *args: object) -> dict[str, Any]:
    """Run a driver of this folder with *python*; return its last line's JSON."""
    out = subprocess.run(
        [python, str(HERE / script), *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return json.loads(out.strip().splitlines()[-1])


def hand_over(
    rows: int, *, latency_ms: float, said_again: int = 0
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Hand *rows* turns to both, one after the other on one server.

    Returns:
        What `_drive_writes.py` found of ours and of the reference, and how many
        requests ours made.
    """
    python = os.environ["REFERENCE_PYTHON"]
    with stage() as scene, embedder(latency_ms=latency_ms) as endpoint:
        dsn = scene.ours("ours")
        settings: dict[str, Any] = {"dsn": dsn, "embed_url": endpoint.url}
        given = (scene.home("ours", settings), dsn, rows, said_again)
        ours = drive(sys.executable, "_drive_writes.py", "ours", *given)
        requests = endpoint.requests()
        say(f"ours       {ours['rows_per_s']:>8} rows/s, {requests} requests")
        dsn = scene.reference("reference", python)
        settings |= {
            "dsn": dsn,
            "embed_model": MODEL.name,
            "write_queue_maxsize": 10**5,
        }
        given = (scene.home("reference", settings), dsn, rows, said_again)
        reference = drive(python, "_drive_writes.py", "reference", *given)
        say(f"reference  {reference['rows_per_s']:>8} rows/s")
    return ours, reference, requests


def percentiles(values: list[float]) -> dict[str, float]:
    """Return the median, the 95th and the 99th percentile."""
    cuts = quantiles(values, n=100)
    return {f"p{share}": round(cuts[share - 1], 1) for share in (50, 95, 99)}


def connections(dsn: str) -> int:
    """Count the client connections to the database of *dsn*, ours left out."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchone()
    assert row is not None
    return int(row[0])
