"""One agent's process: HOME OUT STATE SEED AGENT RUN; see `nursery`.

Writes through the provider until told otherwise on standard input: `shutdown` or
`exit`, or its end, which means that the driver is gone. Each operation is written to
OUT before the hook is called and confirmed there after it has returned; like the
journal, that file survives the death of this process.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory.metrics import REGISTRY
from hermes_pgmemory.provider import PgvectorProvider

SHARED: Final = "common"
"""A theme into which every agent writes at the same time."""
WEIGHTS: Final = {
    "add": 30,
    "replace": 22,
    "remove": 8,
    "again": 6,
    "shared": 12,
    "turn": 16,
    "repeat": 6,
}
EXOTIC: Final = "100%_done, Grüße \\ 'quoted' 🍸"

Operation = dict[str, Any]


class Agent:
    """Invents operations that make sense, given what the agent's entries are."""

    def __init__(
        self,
        seed: str,
        name: str,
        run: str,
        live: dict[str, str],
        *,
        theme: str = "",
        session: str = "",
        weights: Mapping[str, int] = WEIGHTS,
    ) -> None:
        """Start from *live*: key to content of the entries of earlier runs.

        Args:
            seed: Decides on everything.
            name: Who speaks in turns.
            run: This run of the agent, which its keys are named after.
            live: See above.
            theme: Where it writes, if not into a theme of its own name.
            session: Where it speaks, if not in a session named after the run.
            weights: How often it does what.
        """
        self._chance = random.Random(seed)
        self._name = name
        self._theme = theme or name
        self._session = session or run
        self._weights = weights
        self._run = run
        self._live = live
        self._gone: dict[str, str] = {}
        self._said: list[tuple[str, str]] = []
        self._count = 0

    def next(self) -> Operation:
        """Return the next operation; entries' keys begin with their target."""
        self._count += 1
        kind = self._chance.choices([*self._weights], [*self._weights.values()])[0]
        match kind:
            case "replace" | "remove" if self._live:
                return self._change(kind, self._chance.choice(sorted(self._live)))
            case "again" if self._gone:
                key = self._chance.choice(sorted(self._gone))
                return self._add(key, self._gone.pop(key))
            case "shared":
                key = f"memory/{self._run}-{self._count}"
                return self._op("add", SHARED, key=key, content=_content(key, 1))
            case "repeat" if self._said:
                return self._turn(self._chance.choice(self._said))
            case "turn":
                return self._turn((self._speech("asks"), self._speech("answers")))
            case _:
                target = self._chance.choice(["memory", "user"])
                key = f"{target}/{self._run}-{self._count}"
                return self._add(key, _content(key, 1))

    def pause_s(self) -> float:
        """Return how long to wait before the next operation: bursts and lulls."""
        if self._chance.random() < 0.7:
            return 0.0
        return self._chance.expovariate(1 / 0.02)

    def _add(self, key: str, content: str) -> Operation:
        self._live[key] = content
        return self._op("add", key=key, content=content)

    def _change(self, kind: str, key: str) -> Operation:
        old = self._live.pop(key)
        if kind == "remove":
            self._gone[key] = old
            return self._named(kind, key, old)
        self._live[key] = _content(key, self._count)
        return self._named(kind, key, old, content=self._live[key])

    def _named(self, kind: str, key: str, old: str, content: str = "") -> Operation:
        """Name an entry by a part of it or, as newer hosts do, by all of it."""
        whole = {"previous": old} if self._chance.random() < 0.5 else {}
        part = old[: old.index("]") + 1]
        return self._op(kind, key=key, content=content, old=part, **whole)

    def _turn(self, said: tuple[str, str]) -> Operation:
        self._said.append(said)
        return self._op("turn", session=self._session, said=said)

    def _speech(self, does: str) -> str:
        return f"{self._name} {does} in turn {self._count} of {self._run}: {EXOTIC}"

    def _op(self, kind: str, theme: str = "", **more: Any) -> Operation:
        return {"kind": kind, "theme": theme or self._theme, **more}


def _content(key: str, revision: int) -> str:
    """Return a text whose part up to the bracket names this revision alone."""
    return f"[{key} revision {revision}] {EXOTIC}"


class Desk:
    """An agent's providers, by theme, and the file that tells what was accepted."""

    _calling = threading.Lock()
    """Held during a hook: only so does the count of failures tell whose it was."""

    def __init__(self, out: str, providers: Mapping[str, PgvectorProvider]) -> None:
        """Write to *out*; several desks of one process need several files."""
        self._out = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.providers = providers

    def carry_out(self, operation: Operation) -> None:
        """Announce *operation*, call the hook, and say how it went."""
        self._tell(operation)
        with self._calling:
            before = _failures()
            _act(self.providers[operation["theme"]], operation)
            failed = _failures() != before
        self._tell({"outcome": "refused" if failed else "accepted"})

    def _tell(self, line: dict[str, Any]) -> None:
        os.write(self._out, json.dumps(line).encode() + b"\n")


def _provider(home: str, theme: str, run: str) -> PgvectorProvider:
    provider = PgvectorProvider()
    provider.initialize(
        run,
        platform="api_server",
        hermes_home=home,
        agent_context="primary",
        gateway_session_key=theme,
    )
    return provider


def _act(provider: PgvectorProvider, operation: Operation) -> None:
    if operation["kind"] == "turn":
        user, assistant = operation["said"]
        provider.sync_turn(user, assistant, session_id=operation["session"])
        return
    metadata = {
        name: operation[key]
        for name, key in (("old_text", "old"), ("previous_content", "previous"))
        if key in operation
    }
    target = operation["key"].partition("/")[0]
    provider.on_memory_write(operation["kind"], target, operation["content"], metadata)


def _failures() -> float:
    names = ("on_memory_write", "sync_turn")
    counter = "pgmemory_hook_failures_total"
    return sum(REGISTRY.get_sample_value(counter, {"hook": n}) or 0.0 for n in names)


class Orders:
    """What the driver says on standard input."""

    def __init__(self) -> None:
        """Listen in the background."""
        self.came = threading.Event()
        self.order = ""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        self.order = sys.stdin.readline().strip()
        if not self.order:
            os._exit(1)
        self.came.set()


def main() -> None:
    """Write until told otherwise."""
    home, out, state, seed, agent, run = sys.argv[1:]
    orders = Orders()
    desk = Desk(out, {theme: _provider(home, theme, run) for theme in (agent, SHARED)})
    mind = Agent(f"{seed} {run}", agent, run, json.loads(Path(state).read_text()))
    while not orders.came.is_set():
        desk.carry_out(mind.next())
        if pause_s := mind.pause_s():
            orders.came.wait(pause_s)
    if orders.order == "shutdown":
        for provider in desk.providers.values():
            provider.shutdown()
