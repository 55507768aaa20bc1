"""Many agents at once, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from _stage import HERE
from rich.console import Console
from rich.progress import track


class Crowd:
    """Agents, each a process that runs a driver of this folder."""

    def __init__(self, agents: Sequence[Sequence[object]]) -> None:
        """Start one for each line of arguments, and wait until all are ready."""
        self.agents: list[subprocess.Popen[str]] = []
        for words in track(agents, "starting", console=Console(stderr=True)):
            script, *given = words
            command = map(str, (sys.executable, HERE / str(script), *given))
            agent = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.agents.append(agent)
            assert self._line(agent) == "ready\n"

    def begin(self) -> None:
        """Let all do what comes next, at the same time."""
        for agent in self.agents:
            assert agent.stdin is not None
            agent.stdin.write("go\n")
            agent.stdin.flush()

    def told(self) -> list[dict[str, Any]]:
        """Return what each tells of it, when it is done."""
        return [json.loads(self._line(agent)) for agent in self.agents]

    def end(self) -> None:
        """Let them go."""
        for agent in self.agents:
            agent.communicate()

    def _line(self, agent: subprocess.Popen[str]) -> str:
        assert agent.stdout is not None
        return agent.stdout.readline()
