"""Call a provider's hooks as the host does and time them: WHO HOME DSN.

Runs with either implementation's Python; imports neither project's scripts.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import psutil
import psycopg

WHO, HOME, DSN = sys.argv[1:4]
SETTINGS = json.loads((Path(HOME) / "config.yaml").read_text())["plugins"]["pgvector"]
BURSTS, ROUNDS, PAUSE_S = 20, 100, 0.5
"""A burst is a hundred turns, each with a memory write; then the writer may work.

The first call after a pause finds cold caches. It counts among the others, and is
reported by itself: an agent that thinks for seconds between turns meets that one.
"""
os.environ["HERMES_HOME"] = HOME


def build():
    """Return a fresh provider, as `register` makes one per agent."""
    if WHO == "ours":
        from hermes_pgmemory.provider import PgvectorProvider

        return PgvectorProvider()
    from hermes_pgvector import PgvectorMemoryProvider

    return PgvectorMemoryProvider(config=SETTINGS)


def initialize(provider, number: int) -> float:
    """Initialize as the API server does; return milliseconds."""
    started = time.perf_counter()
    provider.initialize(
        f"session-{number}",
        platform="api_server",
        hermes_home=HOME,
        agent_context="primary",
        gateway_session_key="marketing",
        agent_identity="default",
        agent_workspace="hermes",
    )
    return (time.perf_counter() - started) * 1e3


def rss_mb() -> float:
    """Return the resident memory of this process."""
    return psutil.Process().memory_info().rss / 2**20


def percentile(values: list[float], share: float) -> float:
    """Return the value below which *share* of *values* lie."""
    return round(sorted(values)[int(len(values) * share)], 2)


def hooks(provider) -> list[float]:
    """Return the microseconds of each hook call, those of a burst in a row."""
    spent: list[float] = []

    def timed(call, *args, **kwargs) -> None:
        started = time.perf_counter()
        call(*args, **kwargs)
        spent.append((time.perf_counter() - started) * 1e6)

    for number in range(BURSTS * ROUNDS):
        if number % ROUNDS == 0:
            time.sleep(PAUSE_S)
        note = f"Note {number}: the supplier ships on weekday {number % 7}, by rail."
        timed(provider.on_memory_write, "add", "memory", note, {"platform": "cli"})
        timed(
            provider.sync_turn,
            f"Question {number}: which supplier ships on weekday {number % 7}?",
            f"Answer {number}: the one we noted, it ships by rail on that weekday.",
            session_id=f"s{number % 50}",
        )
    return spent


def connections() -> int:
    """Count this benchmark's client connections, this one left out."""
    with psycopg.connect(DSN) as connection:
        (count,) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchone()
    return count


def main() -> None:
    """Measure, then print one line of JSON."""
    provider = build()
    cold_ms = initialize(provider, 0)
    spent = hooks(provider)
    before_mb = rss_mb()
    providers = []
    warm_ms = []
    wanted = 500 if WHO == "ours" else 20
    for number in range(1, wanted + 1):
        providers.append(build())
        warm_ms.append(initialize(providers[-1], number))
    result = {
        "hook_p50_us": percentile(spent, 0.50),
        "hook_p99_us": percentile(spent, 0.99),
        "after_pause_p50_us": percentile(spent[:: 2 * ROUNDS], 0.50),
        "init_cold_ms": round(cold_ms, 2),
        "init_warm_p50_ms": percentile(warm_ms, 0.50),
        "initialized": wanted,
        "threads": threading.active_count(),
        "connections": connections(),
        "rss_delta_mb": round(rss_mb() - before_mb, 1),
    }
    print(json.dumps(result), flush=True)
    os._exit(0)  # the reference's threads are not ours to wait for


main()
