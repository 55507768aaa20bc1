"""Hand a provider many turns at once, wait for the rows: WHO HOME DSN ROWS SAID_AGAIN.

Of SAID_AGAIN (0 or more) exchanges one repeats an earlier one; 0 repeats none.

Runs with either implementation's Python; imports neither project's scripts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import psycopg

WHO, HOME, DSN, ROWS, SAID_AGAIN = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
SETTINGS = json.loads((Path(HOME) / "config.yaml").read_text())["plugins"]["pgvector"]
PATIENCE_S = 600
os.environ["HERMES_HOME"] = HOME


def build():
    """Return an initialised provider."""
    if WHO == "ours":
        from hermes_pgmemory.provider import PgvectorProvider

        provider = PgvectorProvider()
    else:
        from hermes_pgvector import PgvectorMemoryProvider

        provider = PgvectorMemoryProvider(config=SETTINGS)
    provider.initialize(
        "writes",
        platform="api_server",
        hermes_home=HOME,
        agent_context="primary",
        gateway_session_key="marketing",
        agent_identity="default",
        agent_workspace="hermes",
    )
    return provider


def exchange(number: int) -> tuple[str, str, str]:
    """Return a session and what was said in it; a scheduled job says the same again."""
    if SAID_AGAIN and number // 2 % SAID_AGAIN == 0:
        user = "Look for news of the suppliers and report what has changed since then."
        reply = "There is nothing new of any supplier since the last report was made."
        return f"cron{number}", user, reply
    user = f"Turn {number}: which supplier ships on the day after tomorrow?"
    reply = f"Turn {number + 1}: the one by the river, it always ships by rail."
    return f"s{number % 40}", user, reply


def saved() -> float:
    """Return the share of texts that needed no request; 0 for the reference."""
    if WHO != "ours":
        return 0.0
    from hermes_pgmemory.metrics import REGISTRY

    counts = {
        source: REGISTRY.get_sample_value(
            "pgmemory_embed_texts_total", {"source": source}
        )
        or 0
        for source in ("model", "batch", "database")
    }
    return 1 - counts["model"] / sum(counts.values())


def main() -> None:
    """Measure, then print one line of JSON."""
    provider = build()
    told = [exchange(number) for number in range(0, ROWS, 2)]
    hook_us = []
    with psycopg.connect(DSN, autocommit=True) as connection:
        started = time.monotonic()
        for session_id, user, reply in told:
            began = time.perf_counter()
            provider.sync_turn(user, reply, session_id=session_id)
            hook_us.append((time.perf_counter() - began) * 1e6)
        stored = 0
        while stored < ROWS and time.monotonic() - started < PATIENCE_S:
            time.sleep(0.02)
            (stored,) = connection.execute(
                "SELECT count(*) FROM conversations WHERE embedding IS NOT NULL"
            ).fetchone()
        seconds = time.monotonic() - started
        (rows, distinct) = connection.execute(
            "SELECT count(*), count(DISTINCT (session_id, content)) FROM conversations"
        ).fetchone()
    result = {
        "rows_per_s": round(stored / seconds, 1),
        "lost": ROWS - distinct,
        "duplicated": rows - distinct,
        "hook_p99_us": round(sorted(hook_us)[int(len(hook_us) * 0.99)], 1),
        "cache_hit_ratio": round(saved(), 3),
    }
    print(json.dumps(result), flush=True)
    os._exit(0)  # the reference's threads are not ours to wait for


main()
