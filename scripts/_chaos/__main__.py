"""Kill, cut, halt and confuse everything while agents write; count what is lost.

Exit status: 0 nothing lost, doubled or out of order · 1 something was · 130
interrupted. The same seed gives the same plan of faults and of writes; what meets
what, the machine decides.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from typing import Final

from _chaos import plan
from _chaos.book import Book, Verdict
from _chaos.crew import Crew, Stuck
from _chaos.endpoint import Mood
from _chaos.plan import Event, Fault, Round
from _chaos.proxy import Line
from _chaos.stage import Stage, stage

_MOODS: Final = {
    Fault.EMBED_HANGS: Mood.HANGS,
    Fault.EMBED_RUBBISH: Mood.RUBBISH,
    Fault.EMBED_BUSY: Mood.BUSY,
    Fault.EMBED_BROKEN: Mood.BROKEN,
    Fault.EMBED_LENGTH: Mood.LENGTH,
    Fault.EMBED_DIES: Mood.DEAD,
}
_LINES: Final = {
    Fault.CUT: Line.CUT,
    Fault.HALT: Line.HALTED,
    Fault.DEAFEN: Line.DEAF,
}

Action = Callable[[], None]


def say(text: str) -> None:
    """Tell a person."""
    print(text, file=sys.stderr, flush=True)


class Director:
    """Carries out one plan."""

    def __init__(self, scene: Stage, crew: Crew) -> None:
        """Work on *scene* with *crew*."""
        self._scene = scene
        self._crew = crew

    def play(self, act: Round) -> None:
        """Play one round up to the point where nothing waits in any journal."""
        due: list[tuple[float, int, Action]] = []
        order = count()

        def later(at_s: float, action: Action) -> None:
            heapq.heappush(due, (at_s, next(order), action))

        for event in act.events:
            later(event.at_s, lambda event=event: self._begin(act, event))
            later(event.at_s + event.lasts_s, lambda event=event: self._end(act, event))
        if act.dark:
            say(f"  round {act.number}: nobody reaches the database")
            self._scene.proxy.set(Line.CUT)
        for agent in plan.AGENTS:
            self._crew.start(agent, act.number)
        self._crew.wait_for_writes()
        began = time.monotonic()
        while due and due[0][0] < act.span_s:
            at_s, _, action = heapq.heappop(due)
            time.sleep(max(0.0, began + at_s - time.monotonic()))
            action()
        time.sleep(max(0.0, began + act.span_s - time.monotonic()))
        if act.outlasting:
            self._scene.proxy.set(Line.CUT)
            self._crew.end(act.endings)
        self._lift()
        self._crew.end(act.endings)
        self._crew.drain(act.kill_drainer_after_s)

    def _begin(self, act: Round, event: Event) -> None:
        if act.dark and event.fault in _LINES:
            return
        say(f"  round {act.number}, {event.at_s:.2f} s: {event.fault}")
        match event.fault:
            case Fault.KILL_WRITER:
                self._crew.kill(*event.victims)
            case Fault.KILL_ALL:
                self._crew.wait_for_writes()
                self._crew.kill(*event.victims)
            case Fault.KILL_SERVER:
                self._scene.kill_server()
            case Fault.RESTART_SERVER:
                self._scene.server.stop()
            case Fault.TERMINATE:
                self._scene.terminate_backends()
            case Fault.CUT | Fault.HALT | Fault.DEAFEN:
                self._scene.proxy.set(_LINES[event.fault])
            case _:
                self._scene.endpoint.set(_MOODS[event.fault])

    def _end(self, act: Round, event: Event) -> None:
        if act.dark and event.fault in _LINES:
            return
        match event.fault:
            case Fault.KILL_WRITER | Fault.KILL_ALL:
                for agent in event.victims:
                    self._crew.start(agent, act.number)
            case Fault.KILL_SERVER | Fault.RESTART_SERVER:
                self._scene.server.ensure_running()
            case Fault.TERMINATE:
                self._scene.terminate_backends()
            case Fault.DEAFEN:
                # Whoever waits for a swallowed answer would wait for ever.
                self._scene.proxy.set(Line.CUT)
                self._scene.proxy.set(Line.OPEN)
            case Fault.CUT | Fault.HALT:
                self._scene.proxy.set(Line.OPEN)
            case _:
                self._scene.endpoint.set(Mood.WELL)

    def _lift(self) -> None:
        self._scene.server.ensure_running()
        self._scene.endpoint.set(Mood.WELL)
        # What a halted line still holds arrives now, from the dead as well.
        self._scene.proxy.set(Line.OPEN)


def judge(scene: Stage, book: Book) -> Verdict:
    """Compare the database with what the book says."""
    return book.compare(
        scene.rows(
            "SELECT agent_identity, target, content FROM memory_entries"
            " WHERE retired_at IS NULL ORDER BY id"
        ),
        scene.rows(
            "SELECT agent_identity, session_id, role, content FROM conversations"
            " ORDER BY id"
        ),
    )


def run(rounds: int, seed: int, *, keep: bool) -> tuple[int, Book, Verdict]:
    """Play *rounds* rounds, or up to the first that goes wrong; return how many."""
    book = Book()
    verdict = Verdict()
    done = 0
    with stage(keep=keep) as scene, closing(Crew(scene, book, seed)) as crew:
        say(f"seed {seed}, in {scene.folder}")
        director = Director(scene, crew)
        for act in plan.rounds(seed, rounds):
            try:
                director.play(act)
            except Stuck as exc:
                stuck = str(exc)
            else:
                stuck = ""
            verdict = judge(scene, book)
            if stuck:
                verdict.findings.insert(0, stuck)
            done = act.number
            say(f"round {done} of {rounds}: {book.accepted} writes accepted so far")
            if verdict.findings:
                break
    return done, book, verdict


def main() -> int:
    """Run, report, and return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, metavar="N")
    parser.add_argument("--seed", type=int, default=None, metavar="S")
    parser.add_argument("--keep", action="store_true", help="leave the files behind")
    args = parser.parse_args()
    seed = random.randrange(10**6) if args.seed is None else args.seed
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    try:
        done, book, verdict = run(args.rounds, seed, keep=args.keep)
    except KeyboardInterrupt:
        say(f"interrupted; seed {seed}")
        return 130
    for finding in verdict.findings[:50]:
        say(f"seed {seed}, round {done}: {finding}")
    if book.refused:
        say(f"seed {seed}: {book.refused} writes were refused by a journal")
    figures = {
        "rounds": done,
        "accepted": book.accepted,
        "refused": book.refused,
        "stored": book.accepted - verdict.lost,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "out_of_order": verdict.out_of_order,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(figures), flush=True)
    return 1 if verdict.findings or book.refused else 0


if __name__ == "__main__":
    sys.exit(main())
