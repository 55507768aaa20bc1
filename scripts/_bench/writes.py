"""How many turns a second reach the database, embedded: scripts/bench writes [ROWS].

A fake endpoint answers each request after 10 ms with vectors of 768 dimensions. The
reference runs right after, on the same server.
"""

from __future__ import annotations

import json
import os
import sys

from _stage import drive, embedder, say, stage


def main() -> None:
    """Measure both and print the figures."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    with stage() as scene, embedder(latency_ms=10) as endpoint:
        dsn = scene.ours("ours")
        home = scene.home("ours", {"dsn": dsn, "embed_url": endpoint.url})
        ours = drive(sys.executable, "_drive_writes.py", "ours", home, dsn, rows)
        requests = endpoint.requests()
        say(f"ours       {ours['rows_per_s']:>8} rows/s, {requests} requests")
        python = os.environ["REFERENCE_PYTHON"]
        dsn = scene.reference("reference", python)
        settings = {
            "dsn": dsn,
            "embed_url": endpoint.url,
            "embed_model": "nomic-embed-text",
            "write_queue_maxsize": 100_000,
        }
        home = scene.home("reference", settings)
        reference = drive(python, "_drive_writes.py", "reference", home, dsn, rows)
        say(f"reference  {reference['rows_per_s']:>8} rows/s")
    report = {
        "rows": rows,
        "ours_rows_per_s": ours["rows_per_s"],
        "reference_rows_per_s": reference["rows_per_s"],
        "ratio": round(ours["rows_per_s"] / reference["rows_per_s"], 1),
        "embed_requests": requests,
        "lost": ours["lost"],
        "duplicated": ours["duplicated"],
        "hook_p99_us": ours["hook_p99_us"],
    }
    print(json.dumps(report))


main()
