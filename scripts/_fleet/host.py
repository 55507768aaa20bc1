"""One host of the fleet: HOME OUT SEED SECONDS_TO_DRAIN, its minions on standard input.

The first line of standard input is the roster; then this says `ready`, and its
minions live, each in a thread of its own, until the next line comes. Standard input's
end means that the driver is gone. What each minion was promised stands in a file of
OUT; what went wrong, and how long recalls took, is the one line of JSON at the end.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from _chaos.writer import EXOTIC, WEIGHTS, Agent, Desk, Orders

from _fleet.roster import Kind, Minion, strangers
from hermes_pgmemory.metrics import REGISTRY
from hermes_pgmemory.provider import PgvectorProvider

PACE_S: Final = 4.0
"""Mean pause between two things that a minion does."""
RECALLS: Final = 0.4
"""Part of them that is a recall and no write."""
DOES: Final = {kind: weight for kind, weight in WEIGHTS.items() if kind != "shared"}


class Ears:
    """What a host's minions met."""

    def __init__(self) -> None:
        """Have met nothing."""
        self.errors: list[str] = []
        self.leaks: list[str] = []
        self.recalls_ms: list[float] = []
        self.degraded = 0
        """Recalls that said what they lack: no error, and none is hidden."""

    def report(self) -> dict[str, Any]:
        """Return all of it, for the driver."""
        searches = _counted("pgmemory_standby_searches_total", outcome="answered")
        return {
            "errors": self.errors,
            "leaks": self.leaks,
            "recalls_ms": self.recalls_ms,
            "hook_failures": _counted("pgmemory_hook_failures_total"),
            "degraded, and said so": self.degraded,
            "answered by a standby": searches,
        }


class Life:
    """One minion at work."""

    def __init__(
        self, minion: Minion, public: list[str], home: str, out: Path, seed: str
    ) -> None:
        """Attach its provider; *public* are those whose memories are not private."""
        self._minion = minion
        self._public = public
        self._chance = random.Random(f"{seed} {minion.name}")
        self.provider = _attached(minion, home)
        file = out / f"{minion.name}.accepted"
        self._desk = Desk(str(file), {minion.theme: self.provider})
        name = minion.name
        where = {"theme": minion.theme, "session": minion.session}
        self._mind = Agent(seed + name, name, name, {}, **where, weights=DOES)

    def run(self, ears: Ears, stop: threading.Event) -> None:
        """Write and recall at a human pace until told to stop."""
        while not stop.wait(self._chance.expovariate(1 / PACE_S)):
            try:
                if self._chance.random() < RECALLS:
                    self._recall(ears)
                else:
                    self._desk.carry_out(self._mind.next())
            # Whatever reaches a host is what this looks for; the minion lives on.
            except Exception as exc:  # noqa: BLE001
                ears.errors.append(f"{self._minion.name}: {exc!r}")

    def _recall(self, ears: Ears) -> None:
        # Everybody's words, so that only the scope keeps them apart.
        question = f"{EXOTIC} revision {self._minion.name}"
        asked: dict[str, Any] = {"query": question, "limit": 20}
        allowed = self._minion.peers
        tool = self._chance.choice(["recall_memory", "recall_conversation", "", "all"])
        if tool == "all":
            tool = "recall_memory"
            if self._minion.kind is not Kind.CHAT:
                asked["scope"], allowed = "all", self._public
        began = time.perf_counter()
        answer = (
            self.provider.handle_tool_call(tool, asked)
            if tool
            else self.provider.prefetch(question)
        )
        ears.recalls_ms.append((time.perf_counter() - began) * 1e3)
        ears.degraded += '"degraded":' in answer
        if '"error":' in answer:
            ears.errors.append(f"{self._minion.name} was told: {answer[:200]}")
        if seen := strangers(answer, allowed):
            ears.leaks.append(f"{self._minion.name} saw {sorted(seen)}")


def _attached(minion: Minion, home: str) -> PgvectorProvider:
    provider = PgvectorProvider()
    who: dict[str, Any] = {
        "platform": "api_server",
        "gateway_session_key": minion.theme,
    }
    if minion.kind is Kind.CHAT:
        person = minion.name.replace("minion", "person")
        who = {"platform": "telegram", "chat_type": "dm", "user_id": person}
    told = {"hermes_home": home, "agent_context": "primary"}
    provider.initialize(minion.session, **told, **who)
    return provider


def _counted(name: str, **labels: str) -> int:
    return sum(
        int(sample.value)
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def main() -> None:
    """Let the minions live."""
    home, out, seed, drain_s = sys.argv[1:]
    told = json.loads(sys.stdin.readline())
    minions = [Minion.from_json(one) for one in told["minions"]]
    orders, ears = Orders(), Ears()
    lives = [Life(one, told["public"], home, Path(out), seed) for one in minions]
    threads = [
        threading.Thread(target=life.run, args=(ears, orders.came)) for life in lives
    ]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()
    engine = lives[0].provider._engine  # noqa: SLF001
    assert engine is not None
    deadline = time.monotonic() + float(drain_s)
    while engine.journal_depth and time.monotonic() < deadline:
        time.sleep(0.05)
    waiting = engine.journal_depth
    for life in lives:
        life.provider.shutdown()
    print(json.dumps({**ears.report(), "waiting": waiting}), flush=True)


if __name__ == "__main__":
    main()
    # Not through the interpreter's end: a thread still reads standard input.
    os._exit(0)
