"""A fleet at work on one machine, which loses a standby and then its primary.

The primary and two standbys replicate synchronously (ANY 1); agents write through a
pooler and recall from the standbys. Exit status: 0 all is well · 1 a write was lost,
doubled or out of order, a minion met an error or saw a stranger's rows · 130
interrupted. The same seed gives the same fleet and writes.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any, Final

from _servers.keeping import NotInTime
from rich.console import Console
from rich.progress import Progress, TaskID, TimeElapsedColumn, track

from _fleet import verdict
from _fleet.crew import Crew, Stuck
from _fleet.roster import roster
from _fleet.stage import Stage, stage

_LOOK_S: Final = 0.1
RECOVERS_WITHIN_S: Final = 120.0
console = Console(stderr=True)


class Director:
    """Lets the fleet work for a while, and takes its servers away meanwhile."""

    def __init__(
        self, scene: Stage, crew: Crew, hosts: int, chance: random.Random
    ) -> None:
        """Work on *scene* with *crew*."""
        self._scene = scene
        self._crew = crew
        self._hosts = hosts
        self._chance = chance
        self._lost_at = 0.0
        self.failover_s: float | None = None
        """From the primary's loss until every host's writes are stored again."""

    def play(self, seconds: float) -> None:
        """Play it all; returns when every host stores again."""
        due: list[tuple[float, Callable[[], None]]] = [
            (seconds * self._chance.uniform(0.25, 0.35), self._lose_standby),
            (seconds * self._chance.uniform(0.5, 0.6), self._lose_primary),
        ]
        began = time.monotonic()
        with _progress() as progress:
            task = progress.add_task("working", total=seconds)
            while (passed := time.monotonic() - began) < seconds or self._recovering:
                self._crew.check()
                if due and due[0][0] < passed:
                    due.pop(0)[1]()
                self._look(progress, task)
                progress.update(task, completed=min(passed, seconds))
                time.sleep(_LOOK_S)

    @property
    def _recovering(self) -> bool:
        if not self._lost_at or self.failover_s is not None:
            return False
        return time.monotonic() - self._lost_at < RECOVERS_WITHIN_S

    def _lose_standby(self) -> None:
        console.print("a standby is lost; commits wait for the other one")
        self._scene.lose_standby()

    def _lose_primary(self) -> None:
        console.print("the primary is lost")
        self._lost_at = time.monotonic()
        self._scene.lose_primary()
        self._scene.promote()
        console.print("the other standby is promoted, and the pooler leads there")

    def _look(self, progress: Progress, task: TaskID) -> None:
        if not self._recovering:
            return
        storing = self._scene.hosts_storing()
        progress.update(task, description=f"{storing} hosts store again")
        if storing >= self._hosts:
            self.failover_s = round(time.monotonic() - self._lost_at, 1)
            progress.update(task, description="working")
            console.print(f"every host stores again, after {self.failover_s} s")


def _progress() -> Progress:
    return Progress(
        *Progress.get_default_columns(), TimeElapsedColumn(), console=console
    )


def run(args: argparse.Namespace, seed: int) -> tuple[dict[str, Any], list[str]]:
    """Run the fleet; return the figures, and what is wrong."""
    minions = roster(args.minions, args.hosts, seed)
    with ExitStack() as stack:
        with console.status("starting a primary, two standbys and a pooler"):
            scene = stack.enter_context(stage())
        crew = stack.enter_context(closing(Crew(scene, minions, seed)))
        steps = {"starting hosts": crew.start, "waiting for minions": crew.wait}
        for what, step in steps.items():
            for number in track(range(args.hosts), what, console=console):
                step(number)
        director = Director(scene, crew, args.hosts, random.Random(f"faults {seed}"))
        director.play(args.seconds)
        with console.status("waiting until every journal is stored"):
            told = crew.stop()
        book = crew.book()
        found = verdict.judge(book, scene)
        mixed = verdict.mixed(minions, verdict.everything(scene))
    figures = {
        "minions": args.minions,
        "hosts": args.hosts,
        "seconds": args.seconds,
        "accepted": book.accepted,
        "stored": book.accepted - found.lost,
        **verdict.figures(told, found, mixed),
        "failover_s": director.failover_s,
    }
    wrong = [what for one in told for what in one["errors"] + one["leaks"]]
    if director.failover_s is None:
        wrong.append(f"not every host stores again within {RECOVERS_WITHIN_S:.0f} s")
    for what in ("answered by a standby", "degraded, and said so"):
        console.print(f"recalls {what}: {sum(one[what] for one in told)}")
    return figures, [*found.findings, *mixed, *wrong]


def main() -> int:
    """Run, report, and return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/fleet", description=__doc__)
    parser.add_argument("--minions", type=int, default=200, metavar="N")
    parser.add_argument("--hosts", type=int, default=8, metavar="N")
    parser.add_argument("--seconds", type=float, default=300.0, metavar="S")
    parser.add_argument("--seed", type=int, default=None, metavar="S")
    args = parser.parse_args()
    if not 1 <= args.hosts <= args.minions:
        parser.error("--hosts must be 1 to the number of minions")
    seed = random.randrange(10**6) if args.seed is None else args.seed
    console.print(f"seed {seed}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Whoever runs this in the background made it deaf to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        figures, wrong = run(args, seed)
    except (Stuck, NotInTime) as exc:
        console.print(f"seed {seed}: {exc}", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print(f"interrupted; seed {seed}")
        return 130
    for what in wrong[:50]:
        console.print(f"seed {seed}: {what}", markup=False, soft_wrap=True)
    print(json.dumps(figures), flush=True)
    return 1 if wrong or figures["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
