"""Hand a provider many turns at once and wait for the rows: WHO HOME DSN ROWS.

Runs with either implementation's Python; imports neither project's scripts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import psycopg

WHO, HOME, DSN, ROWS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
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


def main() -> None:
    """Measure, then print one line of JSON."""
    provider = build()
    hook_us = []
    with psycopg.connect(DSN, autocommit=True) as connection:
        started = time.monotonic()
        for number in range(0, ROWS, 2):
            user = f"Turn {number}: which supplier ships on the day after tomorrow?"
            reply = f"Turn {number + 1}: the one by the river, it always ships by rail."
            began = time.perf_counter()
            provider.sync_turn(user, reply, session_id=f"s{number % 40}")
            hook_us.append((time.perf_counter() - began) * 1e6)
        stored = 0
        while stored < ROWS and time.monotonic() - started < PATIENCE_S:
            time.sleep(0.02)
            (stored,) = connection.execute(
                "SELECT count(*) FROM conversations WHERE embedding IS NOT NULL"
            ).fetchone()
        seconds = time.monotonic() - started
        (rows, distinct) = connection.execute(
            "SELECT count(*), count(DISTINCT content) FROM conversations"
        ).fetchone()
    result = {
        "rows_per_s": round(stored / seconds, 1),
        "lost": ROWS - distinct,
        "duplicated": rows - distinct,
        "hook_p99_us": round(sorted(hook_us)[int(len(hook_us) * 0.99)], 1),
    }
    print(json.dumps(result), flush=True)
    os._exit(0)  # the reference's threads are not ours to wait for


main()
