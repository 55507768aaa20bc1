"""Fakes for embedding endpoints, and a private folder for the real local model."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import make_embedder, stop_local_server
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE

DIMENSION = 4


def vector_of(text: str) -> list[float]:
    """Give equal texts equal vectors, and others most likely others."""
    return [1.0 + len(text), *(float(ord(char)) for char in (text + "abc")[-3:])]


def openai_reply(vectors: list[object]) -> dict[str, object]:
    return {
        "data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]
    }


class FakeEndpoint:
    """An endpoint whose answer to a list of texts a test may replace."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.answer: Callable[[list[str]], httpx.Response] = self.embed

    def embed(self, texts: list[str]) -> httpx.Response:
        return httpx.Response(200, json=openai_reply([vector_of(t) for t in texts]))

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answer(json.loads(request.content)["input"])

    @property
    def batches(self) -> list[list[str]]:
        """The texts of each request so far."""
        return [json.loads(request.content)["input"] for request in self.requests]


@pytest.fixture
def endpoint():
    return FakeEndpoint()


@pytest.fixture
def embedder_for():
    """Make embedders that are closed at the end: `embedder_for(fake, key=…)`."""
    made = []

    def make(fake: Callable[[httpx.Request], httpx.Response] | None, **settings):
        settings.setdefault("embed_url", "http://embed.test:11434")
        transport = httpx.MockTransport(fake) if fake else None
        made.append(make_embedder(Settings(**settings), transport=transport))
        return made[-1]

    yield make
    for embedder in made:
        embedder.close()


@pytest.fixture
def embedder(endpoint, embedder_for):
    """An embedder whose prefixes are empty, over the fake endpoint."""
    return embedder_for(endpoint, embed_model="plain")


class Misbehaviour:
    """What a real server on loopback does with a POST, and when it may stop."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[BaseHTTPRequestHandler] = []
        self.bodies: list[bytes] = []
        self.released = threading.Event()
        self.act: Callable[[BaseHTTPRequestHandler], None] = self.embed

    @staticmethod
    def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def embed(self, handler: BaseHTTPRequestHandler) -> None:
        texts = json.loads(self.bodies[-1])["input"]
        reply = openai_reply([vector_of(text) for text in texts])
        self.send(handler, 200, json.dumps(reply).encode())


@contextmanager
def serving(behaviour: Misbehaviour) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            length = int(self.headers.get("Content-Length", 0))
            behaviour.bodies.append(self.rfile.read(length))
            behaviour.seen.append(self)
            try:
                behaviour.act(self)
            except OSError:
                self.close_connection = True

        def log_message(self, *_args):
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        behaviour.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield
        behaviour.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def misbehaviour():
    """A real HTTP server: set `act` to say how it fails."""
    behaviour = Misbehaviour()
    with serving(behaviour):
        yield behaviour


@contextmanager
def runtime_folder() -> Iterator[Path]:
    """A short, private runtime folder; the server in it is ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="pgl-", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(RUNTIME_DIR_VARIABLE, str(folder))
        yield folder
        # A test may have moved it, or spoilt it.
        patch.setenv(RUNTIME_DIR_VARIABLE, str(folder))
        folder.chmod(0o700)
        stop_local_server()
    shutil.rmtree(folder)


@pytest.fixture
def runtime_dir():
    """A runtime folder for one test that does things to its server."""
    with runtime_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def shared():
    """The local model for tests that leave its server alone; one for all of them."""
    with runtime_folder():
        embedder = make_embedder(Settings())
        embedder.probe(timeout_s=60)
        yield embedder
        embedder.close()


@pytest.fixture
def wait_until():
    def wait(condition: Callable[[], object], *, seconds: float = 20.0) -> None:
        """Poll *condition* until it holds; fail when it does not in time."""
        deadline = time.monotonic() + seconds
        pause = threading.Event()
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            pause.wait(0.01)

    return wait
