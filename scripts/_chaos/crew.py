"""The processes of one round, and what is known of each."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from _chaos.book import Book
from _chaos.nursery import Child, Nursery
from _chaos.plan import AGENTS, Ending
from _chaos.stage import Stage
from hermes_pgmemory.journal import inspect

BEGUN_BYTES: Final = 4_000
ENDS_WITHIN_S: Final = 30.0
DRAINS_WITHIN_S: Final = 60.0


class Stuck(Exception):
    """A process did not do in time what it must do."""


@dataclass(frozen=True, slots=True)
class Member:
    """One running writer."""

    process: Child
    announcements: Path

    @property
    def has_written(self) -> bool:
        """Whether some writes have been announced."""
        file = self.announcements
        return file.exists() and file.stat().st_size > BEGUN_BYTES


class Crew:
    """Starts, kills and ends the writers; feeds the book with what they accepted."""

    def __init__(self, stage: Stage, book: Book, seed: int) -> None:
        """Start nothing yet."""
        self._stage = stage
        self._book = book
        self._seed = seed
        self._members: dict[str, Member] = {}
        self._errors: IO[bytes] = (stage.folder / "stderr").open("ab")
        self._nursery = Nursery(self._errors)
        self._runs = 0

    def close(self) -> None:
        """Kill whoever is left."""
        for member in self._members.values():
            member.process.kill()
            member.process.close()
        self._nursery.close()
        self._errors.close()

    def start(self, agent: str, number: int) -> None:
        """Start *agent*'s process of round *number*, unless it runs."""
        if agent in self._members:
            return
        self._runs += 1
        # A name with seven digits would be taken for a chat's, and hidden.
        run = f"{agent}-{number}-x-{self._runs}"
        announcements = self._stage.folder / f"{run}.accepted"
        state = self._stage.folder / f"{run}.state"
        state.write_text(json.dumps(self._book.live(agent)))
        process = self._nursery.start(
            "writer", self._stage.home, announcements, state, self._seed, agent, run
        )
        self._members[agent] = Member(process, announcements)

    def wait_for_writes(self) -> None:
        """Return when every writer has begun to write."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while not all(one.has_written for one in self._members.values()):
            if time.monotonic() > deadline:
                raise self._stuck("a writer does not begin")
            time.sleep(0.01)

    def kill(self, *agents: str) -> None:
        """Kill these writers at once, whatever they do."""
        victims = [agent for agent in agents if agent in self._members]
        for agent in victims:
            self._members[agent].process.kill()
        for agent in victims:
            self._part(agent)

    def end(self, endings: dict[str, Ending]) -> None:
        """End all writers, each in its way."""
        for agent in AGENTS:
            if agent in self._members and endings[agent] is not Ending.KILL:
                self._order(self._members[agent].process, endings[agent])
        for agent in AGENTS:
            if endings[agent] is Ending.KILL:
                self.kill(agent)
            elif agent in self._members:
                self._part(agent)

    def drain(self, kill_after_s: float | None) -> None:
        """Let a fresh process store what the journals hold; one may be killed first.

        Raises:
            Stuck: Something waits still.
        """
        if kill_after_s is not None:
            process = self._nursery.start("drainer", self._stage.home, DRAINS_WITHIN_S)
            try:
                process.wait(kill_after_s)
            except subprocess.TimeoutExpired:
                process.kill()
            process.close()
        process = self._nursery.start("drainer", self._stage.home, DRAINS_WITHIN_S)
        try:
            process.wait(DRAINS_WITHIN_S + ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise self._stuck("the draining process does not end") from None
        finally:
            process.close()
        left = inspect(self._stage.paths.journal)
        if left.pending or left.dead_letters:
            raise self._stuck(f"the journals still hold something: {left}")

    def _order(self, process: Child, ending: Ending) -> None:
        try:
            process.stdin.write(f"{ending}\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._stuck("a writer ended by itself") from None

    def _stuck(self, what: str) -> Stuck:
        said = (self._stage.folder / "stderr").read_text(errors="replace").split("\n")
        return Stuck("\n".join([what, "the processes said last:", *said[-20:]]))

    def _part(self, agent: str) -> None:
        member = self._members.pop(agent)
        try:
            member.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            member.process.kill()
            raise self._stuck(f"the writer of {agent} does not end") from None
        finally:
            member.process.close()
        self._book.read(member.announcements, agent)
