"""How long the hooks hold up an agent, and what 500 agents cost one process.

The reference runs in the same minute, on the same server, with the same calls; 20
initialisations are enough to see what each of its costs.
"""

from __future__ import annotations

import json
import os
import sys

from _stage import drive, embedder, say, stage


def main() -> None:
    """Measure both and print the figures."""
    with stage() as scene, embedder() as endpoint:
        ours = drive(
            sys.executable,
            "_drive_hooks.py",
            "ours",
            scene.home(
                "ours", {"dsn": (dsn := scene.ours("ours")), "embed_url": endpoint.url}
            ),
            dsn,
        )
        python = os.environ["REFERENCE_PYTHON"]
        dsn = scene.reference("reference", python)
        settings = {
            "dsn": dsn,
            "embed_url": endpoint.url,
            "embed_model": "nomic-embed-text",
            "write_queue_maxsize": 100_000,
        }
        reference = drive(
            python, "_drive_hooks.py", "reference", scene.home("ref", settings), dsn
        )
    for key, mine in ours.items():
        say(f"{key:18} {mine:>10} {reference[key]:>12}")
    report = {
        "hook_p50_us": ours["hook_p50_us"],
        "hook_p99_us": ours["hook_p99_us"],
        "after_pause_p50_us": ours["after_pause_p50_us"],
        "init_cold_ms": ours["init_cold_ms"],
        "init_warm_p50_ms": ours["init_warm_p50_ms"],
        "after_500_threads": ours["threads"],
        "after_500_connections": ours["connections"],
        "rss_delta_mb": ours["rss_delta_mb"],
        "reference": {
            "hook_p50_us": reference["hook_p50_us"],
            "hook_p99_us": reference["hook_p99_us"],
            "after_pause_p50_us": reference["after_pause_p50_us"],
            "init_cold_ms": reference["init_cold_ms"],
            "init_warm_p50_ms": reference["init_warm_p50_ms"],
            f"after_{reference['initialized']}_threads": reference["threads"],
            f"after_{reference['initialized']}_connections": reference["connections"],
            f"after_{reference['initialized']}_rss_delta_mb": reference["rss_delta_mb"],
        },
    }
    print(json.dumps(report))


main()
