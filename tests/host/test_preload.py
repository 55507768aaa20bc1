"""Agents that are built at once all get their memory, from the very first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hermes_pgmemory import door

AGENTS = """
import threading
from hermes_cli.plugins import discover_plugins
from plugins.memory import load_memory_provider

discover_plugins()  # what the host does when it starts
start, got = threading.Barrier(8), []

def build_agent():
    start.wait()
    got.append(load_memory_provider("pgvector"))

agents = [threading.Thread(target=build_agent) for _ in range(8)]
[agent.start() for agent in agents]
[agent.join() for agent in agents]
print(sum(provider is not None for provider in got))
"""


def test_the_host_imports_the_provider_before_the_first_agent(tmp_path: Path):
    home = tmp_path / "home"
    door.install(home)
    config = {
        "memory": {"provider": "pgvector"},
        "plugins": {"enabled": ["pgvector"]},
    }
    (home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    for _ in range(3):
        told = subprocess.run(
            [sys.executable, "-c", AGENTS],
            env={**os.environ, "HERMES_HOME": str(home), "HOME": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
        )
        assert told.stdout.split()[-1] == "8", told.stderr
