"""One agent of a crowd: HOME DSN NUMBER SECONDS. Writes, talks and recalls, then idles.

Prints a line when it has started, waits for one on stdin, works for SECONDS, prints
what it did as JSON, and stays until stdin closes: an idle agent must hold nothing.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

import psutil

from hermes_pgmemory.provider import PgvectorProvider

HOME, NUMBER, SECONDS = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
PACE_S = 0.5
"""Between two turns of one agent."""
os.environ["HERMES_HOME"] = str(HOME)


def main() -> None:
    """Be an agent."""
    provider = PgvectorProvider()
    provider.initialize(
        f"load-{NUMBER}",
        platform="api_server",
        hermes_home=str(HOME),
        agent_context="primary",
        gateway_session_key=f"theme-{NUMBER % 8}",
    )
    print("ready", flush=True)
    sys.stdin.readline()
    me = psutil.Process()
    rss_mb = me.memory_info().rss / 2**20
    hooks_us: list[float] = []
    recalls_ms: list[float] = []
    errors = degraded = writes = depth = 0
    end = time.monotonic() + SECONDS
    time.sleep(random.Random(NUMBER).random() * PACE_S)
    while time.monotonic() < end:
        began = time.perf_counter()
        note = f"Agent {NUMBER} noted: crate {writes} stands in hall {writes % 17}."
        provider.on_memory_write("add", "memory", note, {})
        provider.sync_turn(
            f"Agent {NUMBER}, where does crate {writes} stand, and since when?",
            f"Crate {writes} of agent {NUMBER} stands in hall {writes % 17} by now.",
            session_id=f"load-{NUMBER}",
        )
        hooks_us.append((time.perf_counter() - began) * 1e6 / 2)
        writes += 3
        asked = time.perf_counter()
        question = {"query": f"Where does crate {max(0, writes - 30)} stand?"}
        answer = json.loads(provider.handle_tool_call("recall_memory", question))
        recalls_ms.append((time.perf_counter() - asked) * 1e3)
        errors += "error" in answer
        degraded += "degraded" in answer
        depth = max(depth, provider._engine.journal_depth)  # noqa: SLF001
        time.sleep(max(0.0, PACE_S - (time.perf_counter() - began)))
    while provider._engine.journal_depth:  # noqa: SLF001
        time.sleep(0.1)
    print(
        json.dumps(
            {
                "writes": writes,
                "errors": errors,
                "degraded": degraded,
                "depth": depth,
                "hooks_us": hooks_us,
                "recalls_ms": recalls_ms,
                "cpu_s": sum(me.cpu_times()[:2]),
                "rss_growth_mb": me.memory_info().rss / 2**20 - rss_mb,
            }
        ),
        flush=True,
    )
    sys.stdin.read()
    os._exit(0)


main()
