"""A fake embedding endpoint that misbehaves on demand."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import suppress
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

DIMENSION: Final = 8


class Mood(StrEnum):
    """How the endpoint answers."""

    WELL = "well"
    HANGS = "hangs"
    RUBBISH = "rubbish"
    BUSY = "busy"
    BROKEN = "broken"
    LENGTH = "length"
    DEAD = "dead"


class Endpoint:
    """Serves on one loopback port for its whole life, except while it is dead."""

    def __init__(self) -> None:
        """Serve at once."""
        self.mood = Mood.WELL
        self.released = threading.Event()
        self._port = 0
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self._open()

    @property
    def url(self) -> str:
        """The endpoint's address."""
        return f"http://127.0.0.1:{self._port}"

    def set(self, mood: Mood) -> None:
        """Answer like that from now on; those who hang are let go."""
        self.released.set()
        self.released = threading.Event()
        self.mood = mood
        if mood is Mood.DEAD:
            self.close()
        elif self._server is None:
            self._open()

    def close(self) -> None:
        """Stop listening and end all threads."""
        self.released.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None

    def _open(self) -> None:
        handler = type("Handler", (_Handler,), {"endpoint": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), handler)
        # Connections kept alive by a client must not hold up our end.
        self._server.daemon_threads = True
        self._port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="endpoint"
        )
        self._thread.start()


class _Handler(BaseHTTPRequestHandler):
    endpoint: Endpoint
    timeout = 5

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_POST(self) -> None:
        """Answer as the mood is."""
        with suppress(OSError):
            self._answer(self.endpoint.mood)

    def _answer(self, mood: Mood) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match mood:
            case Mood.HANGS:
                self.endpoint.released.wait()
            case Mood.BUSY:
                self._send(429, {"error": "slow down"}, Retry_After="1")
            case Mood.BROKEN:
                self._send(500, {"error": "oops"})
            case Mood.RUBBISH:
                self._send(200, {"data": [{"index": 0, "embedding": ["x", None]}]})
            case _:
                length = DIMENSION + (mood is Mood.LENGTH)
                self._send(200, _vectors(texts["input"], length))

    def _send(self, status: int, body: dict[str, Any], **headers: str) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def _vectors(texts: list[str], length: int) -> dict[str, Any]:
    data = [
        {
            "index": index,
            "embedding": list(hashlib.sha256(text.encode()).digest()[:length]),
        }
        for index, text in enumerate(texts)
    ]
    return {"object": "list", "data": data}
