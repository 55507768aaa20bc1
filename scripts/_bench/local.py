"""Agents of one host with the local model: scripts/bench local [AGENTS [QUESTIONS]].

No model is loaded when all agents ask at once: `first_ms` is what that takes. They ask
once more all together, `second_ms`, and then QUESTIONS more at a pace of their own.
The model must be in memory once, however many agents there are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psutil
from _crowd import Crowd
from _stage import say, stage

from hermes_pgmemory.config import Settings
from hermes_pgmemory.embedding_models import LOCAL_MODEL
from hermes_pgmemory.setup import named_model

SERVER = "hermes_pgmemory.embed.local_server"


def together(crowd: Crowd) -> list[dict[str, Any]]:
    """Let every agent do its next part; return what each tells of it."""
    crowd.begin()
    return crowd.told()


def servers(folder: Path) -> list[psutil.Process]:
    """Return the processes that hold the model for the agents of *folder*."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline"]):
        command = " ".join(process.info["cmdline"] or ())
        if SERVER in command and str(folder) in command:
            found.append(process)
    return found


def main() -> None:
    """Let the agents ask, and print the figures."""
    agents = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    questions = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    with stage() as scene:
        dsn = scene.ours("local", named_model(LOCAL_MODEL, 384, Settings()))
        home = scene.home("local", {"dsn": dsn})
        crowd = Crowd(
            [("_drive_local.py", home, number, questions) for number in range(agents)]
        )
        assert not servers(scene.folder)
        first, second, later = (together(crowd) for _ in range(3))
        models = servers(scene.folder)
        model_mb = [process.memory_info().rss / 2**20 for process in models]
        agent_mb = [
            psutil.Process(agent.pid).memory_info().rss / 2**20
            for agent in crowd.agents
        ]
        crowd.end()
        for process in models:
            process.terminate()
    told = [one for part in (first, second, later) for one in part]
    times = [ms for one in later for ms in one["ms"]]
    report = {
        "agents": agents,
        "first_ms_max": round(max(one["ms"][0] for one in first)),
        "second_ms_p50": round(median(one["ms"][0] for one in second), 1),
        "later_ms_p50": round(median(times), 1),
        "later_ms_p95": round(quantiles(times, n=20)[-1], 1),
        "degraded": sum(one["degraded"] for one in told),
        "models": len(models),
        "model_rss_mb": round(sum(model_mb)),
        "agent_rss_mb_mean": round(sum(agent_mb) / agents),
        "rss_mb_in_all": round(sum(model_mb) + sum(agent_mb)),
    }
    for key, value in report.items():
        say(f"{key:18} {value}")
    print(json.dumps(report))


main()
