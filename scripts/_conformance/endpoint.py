"""An embedding endpoint for the checks: texts with common words are near."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIMENSION = 768
_PREFIX = re.compile(r"^search_(query|document): ")


def vector(text: str) -> list[float]:
    """Return a bag of words: each has one dimension, by its hash."""
    numbers = [0.0] * DIMENSION
    for word in re.findall(r"\w+", _PREFIX.sub("", text).lower()):
        digest = hashlib.blake2b(word.encode(errors="replace"), digest_size=4).digest()
        numbers[int.from_bytes(digest) % DIMENSION] += 1.0
    length = math.hypot(*numbers)
    return [number / length for number in numbers] if length else [1.0, *numbers[1:]]


class Handler(BaseHTTPRequestHandler):
    """Speaks OpenAI's dialect."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_POST(self) -> None:
        """Embed."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        packed = body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": _coded(text, packed)}
            for index, text in enumerate(texts)
        ]
        payload = json.dumps({"object": "list", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def _coded(text: str, packed: bool) -> list[float] | str:  # noqa: FBT001
    numbers = vector(text)
    if not packed:
        return numbers
    return base64.b64encode(struct.pack(f"<{DIMENSION}f", *numbers)).decode()


class Endpoint:
    """A running endpoint; leaving the context stops it."""

    def __enter__(self) -> str:
        """Start it, and return its address."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
