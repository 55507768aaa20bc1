"""A home whose agents use the test's own database and the real local model."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import looking
from hermes_pgmemory import engines
from hermes_pgmemory.provider import PgvectorProvider


class Home:
    """One HERMES_HOME: its configuration, its providers, its database's rows."""

    def __init__(self, path: Path, dsn: str) -> None:
        self.path = path
        self.dsn = dsn
        self.providers: list[PgvectorProvider] = []
        (path / "memories").mkdir(parents=True)
        self.configure()

    def configure(self, **settings: Any) -> None:
        section = {"dsn": self.dsn} | settings
        config = {"plugins": {"pgvector": section}}
        (self.path / "config.yaml").write_text(json.dumps(config))  # JSON is YAML

    def agent(self, session_id: str = "s1", **kwargs: Any) -> PgvectorProvider:
        """Return a provider, initialised as the API server does it."""
        provider = PgvectorProvider()
        self.providers.append(provider)
        provider.initialize(
            session_id,
            **{
                "platform": "api_server",
                "hermes_home": str(self.path),
                "agent_context": "primary",
                "agent_identity": "default",
                "agent_workspace": "hermes",
                **kwargs,
            },
        )
        return provider

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        return looking.look(self.dsn, query, parameters)

    def entries(self, theme: str) -> list[str]:
        rows = self.rows(
            "SELECT content FROM memory_entries WHERE agent_identity = %s"
            " AND retired_at IS NULL ORDER BY id",
            theme,
        )
        return [content for (content,) in rows]

    def turns(self, theme: str) -> list[tuple[str, str, str]]:
        return self.rows(
            "SELECT session_id, role, content FROM conversations"
            " WHERE agent_identity = %s ORDER BY id",
            theme,
        )


@pytest.fixture
def local_model_dsn(new_database: Callable[..., str], local_template: str) -> str:
    """A private database made for the local model."""
    return new_database(template=local_template)


@pytest.fixture
def home(tmp_path: Path, local_model_dsn: str) -> Iterator[Home]:
    with _lived_in(tmp_path / "home", local_model_dsn) as home:
        yield home


@pytest.fixture(scope="class")
def lasting_home(
    tmp_path_factory: pytest.TempPathFactory,
    new_template: Callable[..., str],
    local_template: str,
) -> Iterator[Home]:
    """The same, for a class whose tests all leave it as it is, and use no other."""
    path = tmp_path_factory.mktemp("lasting")
    with _lived_in(path / "home", new_template(template=local_template)) as home:
        yield home


@contextmanager
def _lived_in(path: Path, dsn: str) -> Iterator[Home]:
    home = Home(path, dsn)
    yield home
    for provider in home.providers:
        provider.shutdown()
    engines.close_all()


class Outage:
    """Takes a home's database away by its name, and gives it back."""

    def __init__(self, server: str, dsn: str) -> None:
        self.server = server
        self.name = str(conninfo_to_dict(dsn)["dbname"])

    def begin(self) -> None:
        self._rename(self.name, f"{self.name}_away")

    def end(self) -> None:
        self._rename(f"{self.name}_away", self.name)

    def _rename(self, old: str, new: str) -> None:
        end = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        )
        # Nobody comes back before it has its new name.
        allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
        before, after = sql.Identifier(old), sql.Identifier(new)
        with psycopg.connect(self.server, autocommit=True) as admin:
            admin.execute(allow.format(before, sql.Literal(False)))
            admin.execute(end, (old,))
            admin.execute(rename.format(before, after))
            admin.execute(allow.format(after, sql.Literal(True)))


@pytest.fixture
def outage(home: Home, server: str) -> Outage:
    return Outage(server, home.dsn)


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Any]:
    """Return a function that polls until a condition holds, or fails the test.

    What never happens ends it, not what is slow: a batch that the model does not embed
    in time is embedded later.
    """

    def eventually(condition: Callable[[], Any], *, within_s: float = 120) -> Any:
        deadline = time.monotonic() + within_s
        never = threading.Event()
        while True:
            if result := condition():
                return result
            if time.monotonic() > deadline:
                pytest.fail(f"not within {within_s} s: {condition()!r}")
            never.wait(0.02)

    return eventually


@dataclass
class Endpoint:
    """An embedding endpoint on loopback that a test may make fail, or wait."""

    url: str = ""
    models: list[str] = field(default_factory=list)
    batches: list[list[str]] = field(default_factory=list)
    failures: int = 0
    """How many requests from now on are answered with 503."""
    open: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.models.append(request["model"])
        self.batches.append(request["input"])
        self.open.wait(30)
        if self.failures:
            self.failures -= 1
            return 503, {"error": "the model is being loaded"}
        texts = enumerate(request["input"])
        data = [{"index": i, "embedding": [1.0, len(text), 3.0]} for i, text in texts]
        return 200, {"data": data}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    endpoint.open.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, reply = endpoint.answer(json.loads(body))
            raw = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield endpoint
        endpoint.open.set()
        server.shutdown()
        thread.join()
