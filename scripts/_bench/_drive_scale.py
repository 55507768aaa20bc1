"""Ask the reference each question: DSN FILE; prints the ids it finds, and the times.

FILE is JSON: {theme or "": [vector, ...]}. Runs with the reference's Python.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from hermes_pgvector.store import MemoryStore


def main() -> None:
    """Ask, then print one line of JSON."""
    store = MemoryStore(sys.argv[1], timeout=30.0)
    found = {}
    for theme, vectors in json.loads(Path(sys.argv[2]).read_text()).items():
        answers = []
        for vector in [vectors[0], *vectors]:
            began = time.perf_counter()
            rows = store.search(
                query_embedding=vector, agent_identity=theme or None, limit=10
            )
            ms = (time.perf_counter() - began) * 1000
            answers.append({"ids": [row["id"] for row in rows], "ms": ms})
        found[theme] = answers[1:]
    print(json.dumps(found), flush=True)


main()
