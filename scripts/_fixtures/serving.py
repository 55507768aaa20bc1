"""Servers that other memories come with: helpers for drivers, of Python alone."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

PATIENCE_S = 180


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait until *condition* holds and return what it says."""
    deadline = time.monotonic() + PATIENCE_S
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.2)
    return result


@contextmanager
def serving(
    command: list[str], port: int, *, env: dict[str, str], log: Path, cwd: str = "."
) -> Iterator[httpx.Client]:
    """Yield a client of the server that *command* starts; its end is the server's."""
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, env=env, stdout=out, stderr=subprocess.STDOUT, cwd=cwd
        )

    def answers() -> bool:
        if server.poll() is not None:
            raise RuntimeError("the server ended")
        try:
            return client.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            until(answers, "the server")
            yield client
    except BaseException:
        sys.stderr.write(log.read_text(errors="replace")[-6000:])
        raise
    finally:
        server.terminate()
        server.wait()
