"""The quickstart: the whole product at work on this machine, from nothing."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from _quickstart import evidence, findings, places
from _quickstart.findings import Outcome
from _quickstart.fleet import Fleet, stop_kept
from _quickstart.gateway import Gateway
from _quickstart.host import HostError
from _quickstart.minions import MINIONS, Message, Minion
from _quickstart.screen import Screen, Step

INTERRUPTED: Final = "interrupted"


def work(fleet: Fleet, screen: Screen) -> Outcome:
    """Do the main job, step by step."""
    screen.hello(fleet.root)
    with screen.step("Preparing two hosts: PostgreSQL, schema, plugin") as step:
        fleet.set_up(fleet.start_model(findings.script()), step.tell)
        step.outcome = "ready; no server to install, no key to enter"
    with screen.step("Starting the real hermes-agent on both") as step:
        _together([fleet.writers.start, fleet.readers.start])
        step.outcome = "both gateways answer"
    with screen.step("First host: the minions note, change, forget and talk") as step:
        _together([_conversation(fleet.writers, minion, step) for minion in MINIONS])
        step.outcome = f"{sum(len(m.messages) for m in MINIONS)} messages answered"
    with screen.step("Waiting until all of it is in PostgreSQL") as step:
        entries, turns = fleet.settle(*findings.expected_rows())
        step.outcome = f"{entries} memories and {turns} turns are there"
    with screen.step("Second host: asking each minion, in other words") as step:
        before = len(evidence.read_log(fleet.model_log))
        _together([_interview(fleet.readers, minion, step) for minion in MINIONS])
        seen = evidence.gather(evidence.read_log(fleet.model_log, before))
        step.outcome = f"{len(seen.recalls)} recalls went through the agents"
    found = tuple(findings.judge(minion, seen) for minion in MINIONS)
    screen.findings(found, seen)
    return Outcome(entries=entries, turns=turns, findings=found)


def _conversation(gateway: Gateway, minion: Minion, step: Step) -> Callable[[], None]:
    """Return a job: one conversation, its history sent along as clients do."""

    def talk() -> None:
        history: list[tuple[str, str]] = []
        for message in minion.messages:
            answer = _say(gateway, minion, message, step, history)
            history.append((message.text, answer))

    return talk


def _interview(gateway: Gateway, minion: Minion, step: Step) -> Callable[[], None]:
    """Return a job: every question in a conversation of its own."""

    def ask() -> None:
        for message in findings.questions(minion):
            _say(gateway, minion, message, step)

    return ask


def _say(
    gateway: Gateway,
    minion: Minion,
    message: Message,
    step: Step,
    history: Sequence[tuple[str, str]] = (),
) -> str:
    step.now(f"{minion.theme}: {message.text}")
    answer = gateway.ask(
        message.text, key=minion.theme, system=minion.persona, history=history
    )
    return answer.text


def _together(jobs: Sequence[Callable[[], None]]) -> None:
    """Do all *jobs* at once; the first failure does not wait for the others.

    They end by themselves when the gateway that they talk to is stopped.
    """
    pool = ThreadPoolExecutor(len(jobs))
    try:
        for future in as_completed([pool.submit(job) for job in jobs]):
            future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def run(screen: Screen, *, keep: bool) -> int:
    """Run from nothing to the last line; return the exit code."""
    started = time.monotonic()
    place = places.choose()
    fleet = Fleet(Path(place.root), Path(place.runtime))
    outcome: Outcome | None = None
    reason = "a fault of the quickstart itself"
    try:
        outcome, reason = _attempt(fleet, screen)
    finally:
        if not keep or reason:
            with screen.step("Stopping everything") as step:
                swept = fleet.stop()
                step.outcome = f"{swept} had to be told" if swept else "nothing runs on"
    if reason:
        place.keep_logs(fleet.logs)
        screen.failed(reason, fleet.logs)
    elif keep:
        places.record(replace(place, pids=fleet.pids()))
        screen.how_to_go_on(fleet)
    else:
        place.remove()
    print(_last_line(outcome, reason, time.monotonic() - started), flush=True)
    if reason == INTERRUPTED:
        return 130
    return 1 if reason else 0


def _attempt(fleet: Fleet, screen: Screen) -> tuple[Outcome | None, str]:
    """Return what came of it, and the one reason if it is not good, or ""."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        outcome = work(fleet, screen)
    except HostError as exc:
        return None, str(exc)
    except KeyboardInterrupt:
        return None, INTERRUPTED
    finally:
        # From here on only the end matters: a second Ctrl-C must not cut it short.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    return outcome, "; ".join(outcome.complaints())


def _last_line(outcome: Outcome | None, reason: str, seconds: float) -> str:
    """Return the line of JSON that other programs read."""
    line: dict[str, Any] = {"ok": not reason}
    if outcome is not None:
        line |= {
            "themes": len(outcome.findings),
            "entries": outcome.entries,
            "turns": outcome.turns,
            "own_recall": round(outcome.own.share, 4),
            "leaks": len(outcome.leaks),
            "cross_theme_recall": round(outcome.everywhere.share, 4),
        }
    if reason:
        line["reason"] = reason
    return json.dumps(line | {"seconds": round(seconds, 1)})


def stop(screen: Screen) -> int:
    """Stop every fleet that --keep left running; return the exit code."""
    stopped = 0
    for record, place in places.recorded():
        screen.say(f"Stopping the fleet in {place.root} ...")
        stop_kept(Path(place.root), Path(place.runtime), place.pids)
        place.remove()
        record.unlink()
        stopped += 1
    screen.say(f"Stopped {stopped}." if stopped else "No kept fleet is running.")
    return 0


def main(argv: Sequence[str]) -> int:
    """Parse the command line and do as it says."""
    parser = argparse.ArgumentParser(
        prog="scripts/quickstart",
        description="Three agents share one memory on this machine, from nothing. "
        "QUICKSTART_HOME names a folder to use instead of a temporary one.",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--keep",
        action="store_true",
        help="leave the fleet running and say how to go on",
    )
    group.add_argument(
        "--stop", action="store_true", help="stop every fleet that --keep left running"
    )
    args = parser.parse_args(argv)
    screen = Screen()
    try:
        return stop(screen) if args.stop else run(screen, keep=args.keep)
    except HostError as exc:
        screen.say(str(exc))
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
