"""A Unix-socket proxy before PostgreSQL that can be cut, halted and deafened."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

PORT: Final = 5432
_LOOK_S: Final = 0.02
_CHUNK: Final = 65_536


class Line(StrEnum):
    """What the proxy does with what passes through it."""

    OPEN = "open"
    CUT = "cut"
    """Connections break, and new ones too."""
    HALTED = "halted"
    """Nothing moves; connections stay open."""
    DEAF = "deaf"
    """Requests arrive and are carried out; their answers are lost."""


class Proxy:
    """Listens in *folder* and forwards to the server's socket; use as a context."""

    def __init__(self, folder: Path, upstream: Path) -> None:
        """Listen at once; *folder* must be short enough for a socket's path."""
        folder.mkdir(mode=0o700)
        self.folder = folder
        self._upstream = upstream
        self._state = Line.OPEN
        self._epoch = 0
        self._ending = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / f".s.PGSQL.{PORT}"))
        self._listener.listen(64)
        self._threads = [threading.Thread(target=self._accept, name="proxy")]
        self._threads[0].start()

    def set(self, state: Line) -> None:
        """Change what happens from now on; cutting breaks every open connection."""
        if state is Line.CUT:
            self._epoch += 1
        self._state = state

    def close(self) -> None:
        """Break everything and end all threads."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ending.is_set():
            if not select.select([self._listener], [], [], _LOOK_S)[0]:
                continue
            client, _ = self._listener.accept()
            if self._state is Line.CUT:
                client.close()
                continue
            thread = threading.Thread(target=self._serve, args=(client,), name="proxy")
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        epoch = self._epoch
        # Whatever breaks on either side breaks the other: that is the point.
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(str(self._upstream))
            while epoch == self._epoch and not self._ending.is_set():
                if not self._pass(client, server):
                    return

    def _pass(self, client: socket.socket, server: socket.socket) -> bool:
        if self._state is Line.HALTED:
            self._ending.wait(_LOOK_S)
            return True
        for source in select.select([client, server], [], [], _LOOK_S)[0]:
            data = source.recv(_CHUNK)
            if not data:
                return False
            if source is client:
                server.sendall(data)
            elif self._state is not Line.DEAF:
                client.sendall(data)
        return True
