"""An OpenAI-compatible endpoint for other memories: small vectors, scripted answers."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]
Answers = Callable[[Body], Body]
"""Returns the message that a chat model would answer a request with."""


def vector(text: str, dimension: int) -> list[float]:
    """Return a vector that stands for *text* only."""
    digest = hashlib.shake_128(text.encode(errors="replace")).digest(dimension)
    return [byte / 255 for byte in digest]


def _embedded(body: Body, dimension: int) -> Body:
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    vectors = [vector(str(text), dimension) for text in texts]
    packed = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _coded(one, packed=packed)}
        for index, one in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}


def _coded(numbers: list[float], *, packed: bool) -> list[float] | str:
    if not packed:
        return numbers
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def _answered(body: Body, message: Body) -> Body:
    choice = {
        "index": 0,
        "message": {"role": "assistant", **message},
        "finish_reason": "stop",
    }
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body["model"],
        "choices": [choice],
        "usage": usage,
    }


class Endpoint:
    """A running endpoint on the loopback; leaving the context stops it."""

    def __init__(self, answers: Answers, *, dimension: int) -> None:
        """Prepare one whose chat model says *answers*, and whose vectors are small."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

            def do_POST(self) -> None:
                """Embed or answer."""
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                embeds = self.path.endswith("/embeddings")
                said = (
                    _embedded(body, dimension)
                    if embeds
                    else _answered(body, answers(body))
                )
                payload = json.dumps(said).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> str:
        """Start it, and return its address."""
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
