"""A fake embedding endpoint, OpenAI and Ollama in one: DIMENSION LATENCY_MS.

Prints its port, then answers each line on stdin with its number of requests.
Equal texts get equal vectors.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIMENSION, LATENCY_S = int(sys.argv[1]), float(sys.argv[2]) / 1000
served = 0
counting = threading.Lock()


numbers = random.Random(7)
VECTORS = [
    [round(numbers.gauss(0, 1), 4) for _ in range(DIMENSION)] for _ in range(256)
]
POOL = {
    "float": [json.dumps(vector) for vector in VECTORS],
    "base64": [
        json.dumps(base64.b64encode(struct.pack(f"<{DIMENSION}f", *vector)).decode())
        for vector in VECTORS
    ],
}
"""Ready-made vectors: making them must not be what is measured."""


def vector(text: str, encoding: str) -> str:
    """Return a repeatable vector of *text*, as JSON."""
    return POOL[encoding][hashlib.blake2b(text.encode(errors="replace")).digest()[0]]


class Handler(BaseHTTPRequestHandler):
    """Answers both dialects."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_POST(self) -> None:
        """Embed."""
        global served  # noqa: PLW0603
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = body.get("input", body.get("prompt", ""))
        texts = [texts] if isinstance(texts, str) else texts
        time.sleep(LATENCY_S)
        with counting:
            served += 1
        encoding = body.get("encoding_format", "float")
        vectors = [vector(text, encoding) for text in texts]
        if self.path.startswith("/api/"):
            answer = f'{{"embeddings": [{",".join(vectors)}]}}'
        else:
            data = ",".join(
                f'{{"object": "embedding", "index": {i}, "embedding": {v}}}'
                for i, v in enumerate(vectors)
            )
            answer = f'{{"object": "list", "data": [{data}]}}'
        payload = answer.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
for _ in sys.stdin:
    print(served, flush=True)
