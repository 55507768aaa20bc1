"""The server: one thread, one port of loopback, until it is closed."""

from __future__ import annotations

import socket
import threading
from typing import Final

import uvicorn

from hermes_pgmemory.dashboard.gate import ENTRANCE, Gate, Keys
from hermes_pgmemory.dashboard.pages import site
from hermes_pgmemory.dashboard.sources import Sources
from hermes_pgmemory.errors import ConfigError

HOST: Final = "127.0.0.1"
CLOSE_S: Final = 10


class Serving:
    """Pages that are answered until `close`."""

    def __init__(self, sources: Sources, *, port: int) -> None:
        """Answer from now on, on a thread of our own; port 0 takes a free one.

        Raises:
            ConfigError: The port is taken, or not ours to take.
        """
        self._keys = Keys()
        self._socket = _listen(port)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            Gate(site(sources), self._keys),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            access_log=False,  # the address holds the token
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=CLOSE_S,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run,
            kwargs={"sockets": [self._socket]},
            name="pgmemory-dashboard",
        )
        self._thread.start()
        sources.look_ahead()

    @property
    def url(self) -> str:
        """The address that lets one browser in, once."""
        return f"http://{HOST}:{self.port}{ENTRANCE}?token={self._keys.token}"

    def close(self) -> None:
        """Stop answering, and give the port back."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except (OSError, OverflowError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "no such port"
        raise ConfigError({"--port": f"{port} of {HOST}: {why}"}) from exc
