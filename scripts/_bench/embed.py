"""How many texts a second get their vectors: scripts/bench embed [TEXTS].

A fake endpoint answers each request after 20 ms with vectors of 768 dimensions. Of the
texts, a quarter is what a scheduled job says every day: its prompt, and that there is
nothing new. The reference runs right after, on the same server.
"""

from __future__ import annotations

import json
import os
import sys

from _stage import drive, embedder, say, stage


def main() -> None:
    """Measure both and print the figures."""
    texts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    with stage() as scene, embedder(latency_ms=20) as endpoint:
        dsn = scene.ours("ours")
        home = scene.home("ours", {"dsn": dsn, "embed_url": endpoint.url})
        ours = drive(sys.executable, "_drive_embed.py", "ours", home, dsn, texts)
        requests = endpoint.requests()
        say(f"ours       {ours['texts_per_s']:>8} texts/s, {requests} requests")
        python = os.environ["REFERENCE_PYTHON"]
        dsn = scene.reference("reference", python)
        settings = {
            "dsn": dsn,
            "embed_url": endpoint.url,
            "embed_model": "nomic-embed-text",
            "write_queue_maxsize": 100_000,
        }
        home = scene.home("reference", settings)
        reference = drive(python, "_drive_embed.py", "reference", home, dsn, texts)
        say(f"reference  {reference['texts_per_s']:>8} texts/s")
    report = {
        "texts": texts,
        "requests": requests,
        "texts_per_s": ours["texts_per_s"],
        "reference_texts_per_s": reference["texts_per_s"],
        "ratio": round(ours["texts_per_s"] / reference["texts_per_s"], 1),
        "cache_hit_ratio": ours["cache_hit_ratio"],
    }
    print(json.dumps(report))


main()
