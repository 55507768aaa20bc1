"""A crowd of agents on one host: scripts/bench load [AGENTS [SECONDS]].

Each agent is a process with the provider in it that writes three rows and recalls
once every half second, for a minute; a fake endpoint answers after 10 ms. Afterwards
every row must be there once, nobody may have met an error, and after half a minute
of silence nobody may hold a connection.
"""

from __future__ import annotations

import json
import sys
import time
from statistics import fmean

import psycopg
from _crowd import Crowd
from _stage import embedder, percentiles, say, stage
from rich.console import Console
from rich.progress import track

SILENCE_S = 31
CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND backend_type = 'client backend'
   AND pid <> pg_backend_pid()
"""
ROWS = """
SELECT (SELECT count(*) FROM memory_entries) + (SELECT count(*) FROM conversations),
       (SELECT count(DISTINCT (agent_identity, content)) FROM memory_entries)
       + (SELECT count(DISTINCT (agent_identity, content)) FROM conversations)
"""


def main() -> None:
    """Run the crowd and print the figures."""
    agents = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    console = Console(stderr=True)
    with stage() as scene, embedder(latency_ms=10) as endpoint:
        dsn = scene.ours("load")
        home = scene.home("load", {"dsn": dsn, "embed_url": endpoint.url})
        crowd = Crowd(
            [("_drive_load.py", home, number, seconds) for number in range(agents)]
        )
        with psycopg.connect(dsn, autocommit=True) as connection:
            crowd.begin()
            most = 0
            for _ in track(range(int(seconds)), "working", console=console):
                time.sleep(1)
                most = max(most, connection.execute(CONNECTIONS).fetchone()[0])
            told = crowd.told()
            rows, distinct = connection.execute(ROWS).fetchone()
            for _ in track(range(SILENCE_S), "silence", console=console):
                time.sleep(1)
            idle = connection.execute(CONNECTIONS).fetchone()[0]
        crowd.end()
    written = sum(one["writes"] for one in told)
    report = {
        "agents": agents,
        "seconds": seconds,
        "rows": rows,
        "rows_per_s": round(rows / seconds, 1),
        "lost": written - distinct,
        "duplicated": rows - distinct,
        "errors": sum(one["errors"] for one in told),
        "degraded": sum(one["degraded"] for one in told),
        "recall_ms": percentiles([ms for one in told for ms in one["recalls_ms"]]),
        "hook_us": percentiles([us for one in told for us in one["hooks_us"]]),
        "journal_depth_max": max(one["depth"] for one in told),
        "connections_max": most,
        "connections_idle": idle,
        "agent_cpu_share": round(fmean(one["cpu_s"] for one in told) / seconds, 4),
        "rss_growth_mb_max": round(max(one["rss_growth_mb"] for one in told), 1),
    }
    for key, value in report.items():
        say(f"{key:18} {value}")
    print(json.dumps(report))


main()
