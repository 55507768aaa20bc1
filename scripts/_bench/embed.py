"""How many texts a second get their vectors: scripts/bench embed [TEXTS].

A fake endpoint answers each request after 20 ms with vectors of 768 dimensions. Of the
texts, a quarter is what a scheduled job says every day: its prompt, and that there is
nothing new. The reference runs right after, on the same server.
"""

from __future__ import annotations

import json
import sys

from _stage import hand_over


def main() -> None:
    """Measure both and print the figures."""
    texts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    ours, reference, requests = hand_over(texts, latency_ms=20, said_again=4)
    report = {
        "texts": texts,
        "requests": requests,
        "texts_per_s": ours["rows_per_s"],
        "reference_texts_per_s": reference["rows_per_s"],
        "ratio": round(ours["rows_per_s"] / reference["rows_per_s"], 1),
        "cache_hit_ratio": ours["cache_hit_ratio"],
    }
    print(json.dumps(report))


main()
