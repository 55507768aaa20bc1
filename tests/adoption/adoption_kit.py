"""Databases as published releases of hermes-memory-pgvector made and filled them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, LiteralString, Self

import psycopg

import looking
from hermes_pgmemory.models import EmbeddingModel, Scope, Theme, Vector
from hermes_pgmemory.question import Question

DIMENSION: Final = 768
MODEL: Final = EmbeddingModel(name="nomic-embed-text", dimension=DIMENSION)
RELEASES: Final = ("0.3.0", "0.3.1", "0.4.0", "1.0.0")
PHONE: Final = "15550100123"
NATIVE: Final = f"agent:main:whatsapp:dm:{PHONE}"
LONG: Final = "a long note about the harbour " * 80  # 2,400 characters compress well

OURS: Final = "relnamespace = 'public'::regnamespace"
SHAPE: Final = {
    "tables": f"SELECT relname, relkind, reloptions FROM pg_class WHERE {OURS}",
    "columns": f"""
        SELECT relname, attname,
               format_type(atttypid, atttypmod),
               attnotnull, attstorage, attidentity, pg_get_expr(adbin, adrelid),
               col_description(attrelid, attnum)
          FROM pg_attribute
          JOIN pg_class ON pg_class.oid = attrelid
          LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
         WHERE {OURS} AND attnum > 0 AND NOT attisdropped AND relkind <> 'i'""",
    "constraints": f"""
        SELECT relname, conname, contype, pg_get_constraintdef(pg_constraint.oid),
               convalidated
          FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid WHERE {OURS}""",
    "indexes": f"""
        SELECT relname, pg_get_indexdef(indexrelid), indisvalid
          FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE {OURS}""",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'",
    "triggers": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
}


def install(release: str, folder: Path) -> Path:
    """Fetch one release from PyPI, once for each *folder*; return its migrations."""
    target = folder / release
    done = target / ".done"
    if not done.exists():
        package = f"hermes-memory-pgvector=={release}"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        quiet = ["--no-input", "--disable-pip-version-check", "--upgrade"]
        subprocess.run([*command, *quiet, "--target", str(target), package], check=True)
        done.touch()
    (schema,) = target.glob("*/migrations/001_schema.sql")
    return schema.parent


def vector(*points: int) -> list[float]:
    """Return a unit vector along the axes *points*."""
    values = [0.0] * DIMENSION
    for point in points:
        values[point % DIMENSION] += 1 / math.sqrt(len(points))
    return values


def create(dsn: str, migrations: Path) -> None:
    """Apply a release's own files, one after the other, as it does."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for path in sorted(migrations.glob("*.sql")):
            conn.execute(path.read_text())


class Old:
    """Writes rows with the statements of the original's store."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.conn.close()

    def entry(
        self,
        content: str,
        *,
        theme: str = "work",
        target: str = "memory",
        embedding: Sequence[float] | None = None,
        **metadata: Any,
    ) -> None:
        self.conn.execute(
            "INSERT INTO memory_entries"
            " (agent_identity, target, content, embedding, metadata)"
            " VALUES (%s, %s, %s, %s::vector, %s::jsonb)"
            " ON CONFLICT DO NOTHING RETURNING id",
            (theme, target, content, _literal(embedding), json.dumps(metadata)),
        )

    def turn(
        self,
        content: str,
        *,
        theme: str = "work",
        session: str = "s1",
        role: str = "user",
        embedding: Sequence[float] | None = None,
        **metadata: Any,
    ) -> None:
        self.conn.execute(
            "INSERT INTO conversations"
            " (session_id, agent_identity, role, content, embedding, metadata)"
            " VALUES (%s, %s, %s, %s, %s::vector, %s::jsonb) RETURNING id",
            (session, theme, role, content, _literal(embedding), json.dumps(metadata)),
        )

    def fill(self) -> None:
        """Store a few hundred rows, with everything odd that was seen."""
        with self.conn.transaction():
            for n in range(150):
                text = f"note number {n} about subject-{n}"
                self.entry(text, embedding=vector(n))
                self.turn(f"we spoke of matter-{n}", embedding=vector(n))
            self.entry("told without a vector, about marmalade")
            self.turn("said without a vector, about marmalade")
            self.entry("   ")
            self.turn(" ")
            self.entry(LONG, embedding=vector(200))
            for _ in range(2):
                self.turn("said twice", session="s2", embedding=vector(201))
            self.entry('quotes " and \\ and \t tabs \x01 ☕', embedding=vector(202))
            self.turn('quotes " and \\ and \t tabs \x01 ☕', session="s3")
            self.entry("shared", theme="Work", embedding=vector(203))
            self.entry("shared", theme="work")
            self.entry("only in capitals", theme="Work", embedding=vector(204))
            self.entry("a benchmark", theme="skill-bench-7", embedding=vector(205))
            self.entry("dm of nobody", theme="whatsapp-dm", embedding=vector(206))
            self.turn("dm of nobody said", theme="whatsapp-dm", session="d1")
            self.entry(
                "dm with its key",
                theme="whatsapp-dm",
                embedding=vector(207),
                raw_identity=NATIVE,
                platform="whatsapp",
            )
            self.entry("dm under its key", theme=NATIVE, embedding=vector(208))
            self.turn("said under its key", theme=NATIVE, session="d2")
            self.entry("an api key's", theme=f"+{PHONE}", embedding=vector(209))


def _literal(embedding: Sequence[float] | None) -> str | None:
    return None if embedding is None else json.dumps(list(embedding))


def query(dsn: str, statement: LiteralString, *parameters: Any) -> list[Any]:
    """Rows of one column come as a plain list."""
    return looking.column(dsn, statement, parameters or None)


def shape(dsn: str) -> dict[str, list[str]]:
    """Describe every object of ours, but for the order of columns."""
    return {name: sorted(map(str, query(dsn, text))) for name, text in SHAPE.items()}


class Endpoint(ThreadingHTTPServer):
    """An OpenAI-compatible endpoint whose texts all point along axis 7."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        data = [{"index": i, "embedding": vector(7)} for i in range(len(texts))]
        body = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def asked(text: str = "", *, vector: Vector | None = None) -> Question:
    """Return a question to the theme `work`, whose best answer alone counts."""
    scope = Scope(theme=Theme("work"), subject=None)
    return Question(text=text, vector=vector, scope=scope, limit=1)
