"""Hand a provider many turns at once and wait for the vectors: WHO HOME DSN TEXTS.

Runs with either implementation's Python; imports neither project's scripts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import psycopg

WHO, HOME, DSN, TEXTS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
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
        "embed",
        platform="api_server",
        hermes_home=HOME,
        agent_context="primary",
        gateway_session_key="marketing",
        agent_identity="default",
        agent_workspace="hermes",
    )
    return provider


def exchange(number: int) -> tuple[str, str, str]:
    """Return a session and what was said in it; every fourth is a scheduled job."""
    if number % 8 == 0:
        user = "Look for news of the suppliers and report what has changed since then."
        reply = "There is nothing new of any supplier since the last report was made."
        return f"cron{number}", user, reply
    user = f"Turn {number}: which supplier ships on the day after tomorrow?"
    reply = f"Turn {number + 1}: the one by the river, it always ships by rail."
    return f"s{number % 40}", user, reply


def saved() -> float:
    """Return the share of texts that needed no request."""
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
    with psycopg.connect(DSN, autocommit=True) as connection:
        started = time.monotonic()
        for number in range(0, TEXTS, 2):
            session_id, user, reply = exchange(number)
            provider.sync_turn(user, reply, session_id=session_id)
        stored = 0
        while stored < TEXTS and time.monotonic() - started < PATIENCE_S:
            time.sleep(0.02)
            (stored,) = connection.execute(
                "SELECT count(*) FROM conversations WHERE embedding IS NOT NULL"
            ).fetchone()
        seconds = time.monotonic() - started
    result = {"texts_per_s": round(stored / seconds, 1), "cache_hit_ratio": 0.0}
    if WHO == "ours":
        result["cache_hit_ratio"] = round(saved(), 3)
    print(json.dumps(result), flush=True)
    os._exit(0)  # the reference's threads are not ours to wait for


main()
