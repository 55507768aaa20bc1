"""Write a note and a turn, then die: ADAPTER HOME TOPIC PROOF TOPIC PROOF."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from conformance_kit.adapter import load
from conformance_kit.home import Home
from conformance_kit.hosted import Agent
from conformance_kit.words import Fact


def main() -> None:
    """Call the hooks, wait until they have returned, and be killed."""
    adapter, home, *words = sys.argv[1:]
    told = load(adapter, silent_port=int(os.environ["SILENT_PORT"]))
    agent = Agent(told, Home(Path(home)), "killed")
    note, turn = Fact(*words[:2]), Fact(*words[2:])
    done = agent.memory("add", content=note.note)
    assert done["success"], done
    agent.say(*turn.said)
    agent.flush()
    os.kill(os.getpid(), signal.SIGKILL)


main()
