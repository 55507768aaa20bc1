"""One agent with the local model: HOME NUMBER QUESTIONS.

Prints a line when it has started. For each line on stdin it does its next part and
prints what came of it: a first question, a second one, QUESTIONS more with pauses.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

from hermes_pgmemory.provider import PgvectorProvider

HOME, NUMBER, QUESTIONS = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
PAUSE_S = 2.0
"""At most, between two questions of one agent."""
os.environ["HERMES_HOME"] = str(HOME)


def main() -> None:
    """Be an agent."""
    provider = PgvectorProvider()
    provider.initialize(
        f"local-{NUMBER}",
        platform="api_server",
        hermes_home=str(HOME),
        agent_context="primary",
        gateway_session_key=f"theme-{NUMBER}",
    )
    print("ready", flush=True)
    pauses = random.Random(NUMBER)
    asked = 0
    for count in (1, 1, QUESTIONS):
        sys.stdin.readline()
        times: list[float] = []
        degraded = 0
        for _ in range(count):
            if count > 1:
                time.sleep(pauses.random() * PAUSE_S)
            asked += 1
            question = {"query": f"In which hall does crate {NUMBER}-{asked} stand?"}
            began = time.perf_counter()
            answer = json.loads(provider.handle_tool_call("recall_memory", question))
            times.append((time.perf_counter() - began) * 1e3)
            degraded += "degraded" in answer or "error" in answer
        print(json.dumps({"ms": times, "degraded": degraded}), flush=True)
    sys.stdin.read()
    os._exit(0)


main()
