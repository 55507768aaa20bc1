"""The local model's server: the OpenAI protocol on a Unix socket, stdlib only.

Run by `embed.local`, which see. It holds a lock for its whole life, so there is
never a second one, and listens only when the model is warm: who can connect is
answered. Texts come with the model's own prefix ("query: " or "passage: "), which
the engine wants to put there itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any, Final, cast

from hermes_pgmemory.embed.local_engine import (
    Abandoned,
    BadInputError,
    Engine,
    FromHub,
)
from hermes_pgmemory.embed.runtime import (
    LOCK_HELD,
    Owner,
    ServerFiles,
    open_private,
    secure,
    take_lock,
    write_owner,
)
from hermes_pgmemory.embedding_models import LOCAL_MODEL, profile_for

MAX_TEXTS: Final = 256
MAX_BODY_BYTES: Final = 33_554_432

KEEP_ALIVE_S: Final = 120.0
"""Longer than a client keeps an idle connection, so that it is the one to close."""

NICENESS: Final = 5
POLL_S: Final = 0.5
MAX_TRACEBACKS: Final = 20


class SocketServer(ThreadingMixIn, UnixStreamServer):
    """Listens on the socket, and knows when it is time to leave."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, files: ServerFiles, engine: Engine, *, idle_s: float) -> None:
        """Bind the socket; the caller holds the lock."""
        super().__init__(str(files.socket), Handler, bind_and_activate=False)
        self.engine = engine
        self.terminated = False
        self.timeout = min(POLL_S, idle_s / 4)
        self._path = files.socket
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._active = 0
        self._last_used = time.monotonic()
        self._tracebacks = 0
        # Whoever left it there is dead: we hold the lock.
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self.server_bind()
        finally:
            os.umask(before)
        self._identity = self._look()
        self.server_activate()

    def _look(self) -> tuple[int, int] | None:
        try:
            info = self._path.lstat()
        except FileNotFoundError:
            return None
        return info.st_dev, info.st_ino

    @contextlib.contextmanager
    def busy(self) -> Generator[None]:
        """Count as in use."""
        with self._lock:
            self._active += 1
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1
                self._last_used = time.monotonic()

    def should_leave(self) -> bool:
        """Tell whether we were told to, cannot be found any more, or bore everyone."""
        if self.terminated or self._look() != self._identity:
            return True
        with self._lock:
            idle_s = time.monotonic() - self._last_used
            return self._active == 0 and idle_s >= self._idle_s

    def remove_socket(self) -> None:
        """Remove the socket's file, unless somebody put another one there."""
        if self._look() == self._identity:
            self._path.unlink(missing_ok=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a surprise; a client that went away is none."""
        self._tracebacks += 1
        gone = isinstance(sys.exception(), ConnectionError | TimeoutError)
        if not gone and self._tracebacks <= MAX_TRACEBACKS:
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection; HTTP/1.1 with keep-alive."""

    protocol_version = "HTTP/1.1"
    timeout = KEEP_ALIVE_S
    # Status line, headers and body leave in one packet.
    wbufsize = -1

    def do_POST(self) -> None:
        """Answer POST /v1/embeddings."""
        server = cast("SocketServer", self.server)
        with server.busy():
            try:
                texts = self._texts()
                vectors = server.engine.embed(texts, self._still_there)
            except BadInputError as exc:
                self._reply(400, {"error": {"message": str(exc)}})
            except Abandoned:
                self.close_connection = True
            else:
                self._reply(200, _embeddings(server.engine.name, vectors))

    def _texts(self) -> list[str]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            raise BadInputError("a body of known and moderate length is needed")
        body = self.rfile.read(int(length))
        if self.path != "/v1/embeddings":
            raise BadInputError("only /v1/embeddings is served")
        try:
            request: object = json.loads(body)
        except (ValueError, RecursionError):
            raise BadInputError("the body is not JSON") from None
        given: object = None
        if isinstance(request, dict):
            given = cast("dict[str, object]", request).get("input")
        texts = cast("list[object]", given if isinstance(given, list) else [given])
        if not 1 <= len(texts) <= MAX_TEXTS:
            raise BadInputError(f"the batch size must be 1 to {MAX_TEXTS}")
        if not all(isinstance(text, str) for text in texts):
            raise BadInputError("input must be a string or a list of strings")
        return cast("list[str]", texts)

    def _still_there(self) -> bool:
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        if not poll.poll(0):
            return True
        try:
            return self.connection.recv(1, socket.MSG_PEEK) != b""
        except OSError:
            return False

    def _reply(self, status: int, content: object) -> None:
        body = json.dumps(content, separators=(",", ":")).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep no record of requests."""


def _embeddings(model: str, vectors: list[list[float]]) -> dict[str, object]:
    return {
        "object": "list",
        "model": model,
        "data": [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(vectors)
        ],
    }


def serve(
    files: ServerFiles, *, idle_s: float, threads: int, hub_model: str = ""
) -> None:
    """Load the model and serve until it is time to leave. The lock is ours."""
    # Read when the engine's libraries load. Waiting threads must sleep: a guest
    # does not spin on the agent's cores.
    os.environ.update(
        OMP_NUM_THREADS=str(threads),
        OMP_WAIT_POLICY="passive",
        OPENBLAS_NUM_THREADS="1",
    )
    os.nice(NICENESS)
    engine = Engine(FromHub(hub_model, threads=threads) if hub_model else None)
    engine.embed([profile_for(LOCAL_MODEL).query_prefix + "hello"], lambda: True)
    with SocketServer(files, engine, idle_s=idle_s) as server:

        def terminate(_signal: int, _frame: object) -> None:
            server.terminated = True

        signal.signal(signal.SIGTERM, terminate)
        while not server.should_leave():
            server.handle_request()
        server.remove_socket()


def _detach(lock: int, started_at: float) -> None:
    """Leave the launcher behind: nobody has to wait for us, ever."""
    child = os.fork()
    if child:
        write_owner(lock, Owner(child, started_at))
        os._exit(os.EX_OK)


def _redirect_output(log: Path) -> None:
    quiet = os.open(os.devnull, os.O_RDONLY)
    os.dup2(quiet, 0)
    descriptor = open_private(log, os.O_WRONLY | os.O_TRUNC | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(quiet)
    os.close(descriptor)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve, unless another server does already."""
    parser = argparse.ArgumentParser(prog="hermes-pgmemory local model")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--idle-s", type=float, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--hub-model", default="")
    parser.add_argument("--detach", action="store_true")
    options = parser.parse_args(argv)
    files = ServerFiles(options.socket)
    hub_model: str = options.hub_model
    secure(files)
    lock = take_lock(files.lock)
    if lock is None:
        return LOCK_HELD
    started_at = time.time()
    write_owner(lock, Owner(os.getpid(), started_at))
    if options.detach:
        _detach(lock, started_at)
        _redirect_output(files.log)
    serve(files, idle_s=options.idle_s, threads=options.threads, hub_model=hub_model)
    sys.stderr.flush()
    # Not `return`: threads inside the engine must not meet its end.
    os._exit(os.EX_OK)


if __name__ == "__main__":
    sys.exit(main())
