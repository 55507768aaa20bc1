"""How many turns a second reach the database, embedded: scripts/bench writes [ROWS].

A fake endpoint answers each request after 10 ms with vectors of 768 dimensions. The
reference runs right after, on the same server.
"""

from __future__ import annotations

import json
import sys

from _stage import hand_over


def main() -> None:
    """Measure both and print the figures."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    ours, reference, requests = hand_over(rows, latency_ms=10)
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
