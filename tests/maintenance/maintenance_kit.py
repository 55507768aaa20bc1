"""What the tests of maintenance share: a database that is written and looked at."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import Any, LiteralString
from uuid import uuid4

import looking
from hermes_pgmemory.models import (
    Accepted,
    AddEntry,
    AddTurn,
    Role,
    Target,
    Theme,
    Vector,
    Write,
)
from hermes_pgmemory.store import Store

START = datetime(2026, 1, 1, tzinfo=UTC)
POISON = "poison"


class Memory:
    """Applies writes as one journal, and looks past the store."""

    def __init__(self, store: Store, dsn: str) -> None:
        self.store = store
        self.dsn = dsn
        self.epoch = str(uuid4())
        self.position = 0

    def entry(self, content: str, **more: Any) -> AddEntry:
        given = {"theme": Theme("work"), "target": Target.MEMORY, "at": START} | more
        return AddEntry(content=content, **given)

    def turn(self, content: str, **more: Any) -> AddTurn:
        given = {
            "theme": Theme("work"),
            "session_id": "s1",
            "role": Role.USER,
            "ordinal": 1,
            "at": START,
        } | more
        return AddTurn(content=content, **given)

    def accept(self, *writes: Write) -> list[Accepted]:
        accepted = []
        for write in writes:
            self.position += 1
            accepted.append(
                Accepted(epoch=self.epoch, position=self.position, write=write)
            )
        return accepted

    def apply(self, *writes: Write, vectors: Mapping[int, Vector] | None = None) -> int:
        return self.store.apply(self.accept(*writes), vectors or {}, timeout_s=10)

    def query(self, statement: LiteralString, *parameters: Any) -> list[Any]:
        """Rows of one column come as a plain list."""
        return looking.column(self.dsn, statement, parameters or None)

    def contents(self, theme: str = "work") -> list[str]:
        return self.query(
            "SELECT content FROM memory_entries WHERE agent_identity = %s"
            " ORDER BY content",
            theme,
        )

    def turns(self, theme: str = "work") -> list[str]:
        return self.query(
            "SELECT content FROM conversations WHERE agent_identity = %s"
            " ORDER BY content, id",
            theme,
        )

    def log(self) -> list[Any]:
        return self.query(
            "SELECT operation, target_table, identity_pattern, affected_count,"
            " dropped_dupes FROM memory_maintenance_log ORDER BY id"
        )

    @contextmanager
    def busy(self, theme: str = "work") -> Iterator[list[str]]:
        """Write to *theme* as an agent does, until the block ends.

        Yields what was written so far; the block begins after the first write.
        """
        written: list[str] = []
        trouble: list[BaseException] = []
        started, over = threading.Event(), threading.Event()

        def write() -> None:
            deadline = monotonic() + 60
            agent = Memory(Store(self.dsn, pool_size=1), self.dsn)
            try:
                while not over.is_set() and monotonic() < deadline:
                    text = f"live {len(written)}"
                    now = datetime.now(UTC)
                    agent.apply(
                        agent.entry(text, theme=Theme(theme), at=now),
                        agent.turn(text, theme=Theme(theme), at=now),
                    )
                    written.append(text)
                    started.set()
            except BaseException as exc:  # noqa: BLE001 - told to the test below
                trouble.append(exc)
            finally:
                started.set()
                agent.store.close()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            assert started.wait(30)
            yield written
        finally:
            over.set()
            thread.join()
        assert trouble == []


class Endpoint(ThreadingHTTPServer):
    """An OpenAI-compatible endpoint of model `test`, which chokes on poison."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.dimension = 3
        self.models: dict[str, int] = {}
        """Models whose vectors differ by text, and how long these are."""
        self.asked: list[list[str]] = []
        self.answers_left: int | None = None
        """How many requests it answers before it fails; None is all."""
        self.when_asked: Callable[[int], object] = lambda _: None
        """Told, before each answer, how many requests there were."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body)
        texts, model = asked["input"], asked["model"]
        texts = [texts] if isinstance(texts, str) else texts
        self.server.asked.append(texts)
        self.server.when_asked(len(self.server.asked))
        left = self.server.answers_left
        if left is not None:
            if left <= 0:
                return self._answer(503, {"error": "down"})
            self.server.answers_left = left - 1
        if any(POISON in text for text in texts):
            return self._answer(400, {"error": {"message": "cannot tokenise"}})
        data = [
            {"index": i, "embedding": self._vector(model, text)}
            for i, text in enumerate(texts)
        ]
        return self._answer(200, {"data": data})

    def _vector(self, model: str, text: str) -> list[float]:
        if dimension := self.server.models.get(model):
            return vector_of(model, text, dimension)
        return [1.0] + [0.5] * (self.server.dimension - 1)

    def _answer(self, status: int, payload: Any) -> None:
        body = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def vector_of(model: str, text: str, dimension: int) -> list[float]:
    """Return what *model* makes of *text*: unit vectors that nothing else has."""
    seed = hashlib.blake2b(f"{model} {text}".encode(), digest_size=2 * dimension)
    parts = struct.unpack(f"<{dimension}h", seed.digest())
    length = math.sqrt(sum(part * part for part in parts))
    return [part / length for part in parts]


def days_ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)
