"""A journal per process, or one for all: scripts/bench journal [PROCESSES [APPENDS]].

PROCESSES agents append at the same time, each a write of half a kilobyte every few
milliseconds, and sync every half second as the writer's thread does: `own` into slots
of their own, as the product does, `shared` into one SQLite file, by the same settings
and statement, waiting for each other as SQLite does.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import quantiles

from _stage import say

from hermes_pgmemory.journal import Journal

TEXT = "x" * 500
PAUSE_S = 0.005
"""Between two appends of a process, on average."""
SYNC_S = 0.5
QUOTA = 2**30
Times = list[float]
Way = Callable[[Path, int, Barrier], Times]


def own(folder: Path, appends: int, ready: Barrier) -> Times:
    """Append to a slot of this process's own; return microseconds."""
    journal = Journal.claim(folder, quota_bytes=QUOTA)
    times = timed(lambda: journal.append([TEXT]), journal.sync, appends, ready)
    journal.close()
    return times


def shared(folder: Path, appends: int, ready: Barrier) -> Times:
    """Append to the one file of all; return microseconds."""
    database = sqlite3.connect(folder / "shared.db", isolation_level=None, timeout=60)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("PRAGMA wal_autocheckpoint = 0")
    database.execute(
        "CREATE TABLE IF NOT EXISTS writes (position INTEGER PRIMARY KEY,"
        " epoch TEXT NOT NULL, accepted_at REAL NOT NULL, record TEXT NOT NULL)"
    )
    append = "INSERT INTO writes (epoch, accepted_at, record) VALUES (?, ?, ?)"
    times = timed(
        lambda: database.execute(append, ("epoch", time.time(), TEXT)),
        lambda: database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall(),
        appends,
        ready,
    )
    database.close()
    return times


def timed(
    append: Callable[[], object],
    sync: Callable[[], object],
    appends: int,
    ready: Barrier,
) -> Times:
    """Append at a pace, once all processes are there; sync between appends."""
    pauses = random.Random(0)
    ready.wait()
    synced = time.monotonic()
    times: Times = []
    for _ in range(appends):
        time.sleep(pauses.expovariate(1 / PAUSE_S))
        began = time.perf_counter()
        append()
        times.append((time.perf_counter() - began) * 1e6)
        if time.monotonic() - synced > SYNC_S:
            sync()
            synced = time.monotonic()
    return times


def work(
    way: Way, folder: Path, appends: int, ready: Barrier, told: Queue[Times]
) -> None:
    """Be one process."""
    told.put(way(folder, appends, ready))


def measure(way: Way, processes: int, appends: int) -> dict[str, float]:
    """Run all processes; return percentiles over all appends."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        ready, told = context.Barrier(processes), context.Queue()
        given = (way, Path(folder), appends, ready, told)
        crowd = [context.Process(target=work, args=given) for _ in range(processes)]
        for process in crowd:
            process.start()
        times = [one for _ in crowd for one in told.get()]
        for process in crowd:
            process.join()
    cuts = quantiles(times, n=1000)
    figures = {"p50": cuts[499], "p99": cuts[989], "p99.9": cuts[998]}
    return {name: round(cut) for name, cut in figures.items()} | {
        "max": round(max(times))
    }


def main() -> None:
    """Measure both and print the figures."""
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    appends = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    report: dict[str, object] = {"processes": processes, "appends": appends}
    for way in (own, shared):
        report[f"{way.__name__}_us"] = figures = measure(way, processes, appends)
        say(f"{way.__name__:8} {figures}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
