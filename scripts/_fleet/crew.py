"""The host processes: started, watched, told to stop, and ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import IO, Any, Final

from _chaos.book import Book

from _fleet.roster import Kind, Minion
from _fleet.stage import Stage

HERE: Final = Path(__file__).parent
STARTS_WITHIN_S: Final = 120.0
DRAINS_WITHIN_S: Final = 120.0


class Stuck(Exception):
    """A host did not do what it must do."""


class Crew:
    """Starts the hosts, and collects what they have to tell."""

    def __init__(self, stage: Stage, minions: list[Minion], seed: int) -> None:
        """Start nothing yet."""
        self._stage = stage
        self._minions = minions
        self._seed = seed
        self._hosts: list[subprocess.Popen[str]] = []
        self._errors: IO[bytes] = (stage.folder / "stderr").open("ab")

    def close(self) -> None:
        """Kill whoever is left."""
        for host in self._hosts:
            host.kill()
            host.communicate()
        self._errors.close()

    def start(self, number: int) -> None:
        """Start one host; `wait` returns when its minions are at work."""
        mine = [one.to_json() for one in self._minions if one.host == number]
        public = [one.name for one in self._minions if one.kind is not Kind.CHAT]
        home = self._stage.home(number)
        words = (home, self._stage.folder, self._seed, DRAINS_WITHIN_S)
        host = subprocess.Popen(
            [sys.executable, "-m", "_fleet.host", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            # An interrupt from the keyboard is for the driver, who ends the others.
            start_new_session=True,
        )
        self._hosts.append(host)
        self._tell(host, json.dumps({"minions": mine, "public": public}))

    def wait(self, number: int) -> None:
        """Return when all minions of a host are at work.

        Raises:
            Stuck: They never are.
        """
        if self._hear(self._hosts[number], STARTS_WITHIN_S) != "ready\n":
            raise self._stuck(f"host {number} does not begin")

    def check(self) -> None:
        """Look whether every host is there.

        Raises:
            Stuck: One is not.
        """
        for number, host in enumerate(self._hosts):
            if host.poll() is not None:
                raise self._stuck(f"host {number} ended by itself")

    def stop(self) -> list[dict[str, Any]]:
        """Let all hosts store what waits, end them, and return their reports."""
        self.check()
        for host in self._hosts:
            self._tell(host, "stop")
        told: list[dict[str, Any]] = []
        for number, host in enumerate(self._hosts):
            line = self._hear(host, DRAINS_WITHIN_S + STARTS_WITHIN_S)
            if not line:
                raise self._stuck(f"host {number} has nothing to tell")
            told.append(json.loads(line))
            if told[-1]["waiting"]:
                raise self._stuck(f"the journal of host {number} still holds something")
        return told

    def book(self) -> Book:
        """Return what the minions were promised."""
        book = Book()
        for minion in self._minions:
            book.read(self._stage.folder / f"{minion.name}.accepted", minion.name)
        return book

    @staticmethod
    def _tell(host: subprocess.Popen[str], line: str) -> None:
        assert host.stdin is not None
        host.stdin.write(f"{line}\n")
        host.stdin.flush()

    @staticmethod
    def _hear(host: subprocess.Popen[str], within_s: float) -> str:
        assert host.stdout is not None
        late = Timer(within_s, host.kill)
        late.start()
        try:
            return host.stdout.readline()
        finally:
            late.cancel()

    def _stuck(self, what: str) -> Stuck:
        said = (self._stage.folder / "stderr").read_text(errors="replace").split("\n")
        return Stuck("\n".join([what, "the hosts said last:", *said[-20:]]))
