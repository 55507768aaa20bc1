"""The fleet of a run: one database, two hosts, one scripted model; started, stopped.

The first host is a newcomer's: no settings, so PostgreSQL and the embedding model
are the embedded ones. The second is another machine of the same fleet: an empty home
of its own that only knows the first one's database.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict

from _quickstart import chat_model, processes
from _quickstart.gateway import STOP_S, Gateway
from _quickstart.host import BIN, Home, HostError, end
from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.embedded.binaries import find_binaries
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE, HomePaths

COMMAND_S: Final = 120.0
"""Seconds that one of our commands may take."""

LOOK_S: Final = 0.5
"""How long to wait before looking again whether it is all there."""

SETTLE_S: Final = 60.0
"""Seconds until every accepted write is in the database."""


class Fleet:
    """Everything a run starts, below one folder."""

    def __init__(self, root: Path, runtime: Path) -> None:
        """Lay out *root*, which is the first host's HERMES_HOME.

        *runtime* is a short folder for sockets, for this run only: the embedding model
        is shared by all agents of a user, and this keeps the run's apart.
        """
        self.root = root
        self.runtime = runtime
        self.own = root / "quickstart"
        """What is not the first host's: logs, the chat model, the second host."""
        self.logs = self.own / "logs"
        self.model_log = self.logs / "chat-model.jsonl"
        extra = {RUNTIME_DIR_VARIABLE: str(runtime)}
        # For this process too: it names the server's socket, which lies there where
        # the home's path is too long for one.
        os.environ.update(extra)
        user_home = self.own / "user"
        for folder in (self.logs, user_home):
            folder.mkdir(parents=True, exist_ok=True)
        second = self.own / "second-host"
        self.first = Home(path=root, user_home=user_home, extra_env=extra)
        self.second = Home(path=second, user_home=user_home, extra_env=extra)
        self.writers = Gateway(self.first, self.logs / "gateway-1.log")
        self.readers = Gateway(self.second, self.logs / "gateway-2.log")
        self._model: subprocess.Popen[bytes] | None = None

    def start_model(self, script: Mapping[str, Any]) -> str:
        """Start the scripted chat model; return its URL.

        It is a process of its own, so that a kept fleet can outlive this one.
        """
        port_file = self.own / "chat-model.port"
        script_file = self.own / "chat-model.json"
        script_file.write_text(json.dumps(script, indent=1), encoding="utf-8")
        command = [sys.executable, chat_model.__file__]
        with (self.logs / "chat-model.log").open("ab") as out:
            self._model = subprocess.Popen(
                [*command, str(port_file), str(self.model_log), str(script_file)],
                env=self.first.env,
                cwd=self.own,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        model = self._model
        until(
            lambda: port_file.exists() or model.poll() is not None,
            "the chat model did not start",
            timeout_s=20,
        )
        if not port_file.exists():
            raise HostError("the chat model ended at once")
        return f"http://127.0.0.1:{port_file.read_text(encoding='utf-8')}/v1"

    def set_up(self, model_url: str, tell: Callable[[str], None]) -> None:
        """Make both homes ready, the way a user does: one command each.

        *tell* hears each step of the first one.
        """
        for home in (self.first, self.second):
            home.write_config(model_url)
        self.pgvector(self.first, "setup", tell=tell)
        self.pgvector(self.second, "setup", "--dsn", self.dsn)

    @property
    def dsn(self) -> str:
        """How to reach the first host's database."""
        return EmbeddedServer(HomePaths(self.first.path).server).dsn

    def settle(self, entries: int, turns: int) -> tuple[int, int]:
        """Wait for this many rows, all embedded, and return how many there are.

        After `SETTLE_S` the rows are what they are, and the caller judges them.

        Raises:
            HostError: There is not a single one.
        """
        deadline = time.monotonic() + SETTLE_S
        while (counted := self._count()) != (entries, turns, 0):
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK_S)
        if counted[:2] == (0, 0):
            raise HostError(f"nothing was stored: {self.complaint()}")
        return counted[:2]

    def complaint(self) -> str:
        """Return the first warning of ours in the hosts' own logs, if there is one."""
        lines = [*self.first.log_lines(), *self.second.log_lines()]
        ours = (line for line in lines if "WARNING hermes_pgmemory" in line)
        return next(ours, "no warning in the hosts' logs").partition(": ")[2]

    def _count(self) -> tuple[int, int, int]:
        """Return all entries and turns, and how much of them is still to be done."""
        status = json.loads(self.pgvector(self.first, "status", "--json"))
        themes = status["themes"]
        waiting = status["parts"]["journal"]["pending"]
        bare = sum(
            theme["unembedded_entries"] + theme["unembedded_turns"] for theme in themes
        )
        return (
            sum(theme["entries"] for theme in themes),
            sum(theme["turns"] for theme in themes),
            bare + waiting,
        )

    def pids(self) -> tuple[int, ...]:
        """Return what a kept fleet's stop must end first, in order."""
        model = () if self._model is None else (self._model.pid,)
        return (self.writers.pid, self.readers.pid, *model)

    def look_commands(self) -> list[str]:
        """Return commands that show what is kept."""
        told = conninfo_to_dict(self.dsn)
        psql = f"{find_binaries() / 'psql'} -h {told['host']} -p {told['port']}"
        query = "SELECT agent_identity, target, content FROM memory_entries ORDER BY 1"
        return [
            f"export {RUNTIME_DIR_VARIABLE}={self.runtime}",
            f"{BIN / 'hermes-pgvector'} status --home {shlex.quote(str(self.root))}",
            f'{psql} -U {told["user"]} -d {told["dbname"]} -c "{query}"',
        ]

    def pgvector(
        self,
        home: Home,
        *arguments: str,
        tell: Callable[[str], None] | None = None,
    ) -> str:
        """Run one `hermes-pgvector` command in *home*; return its standard output.

        Raises:
            HostError: It failed; the message is its last line.
        """
        command = ("hermes-pgvector", *arguments, "--home", str(home.path))
        done = home.run(*command, timeout_s=COMMAND_S, tell=tell)
        log = self.logs / f"{home.path.name}-{arguments[0]}.log"
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
        if done.returncode:
            lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
            failed = [line for line in lines if line.startswith("✗")] or lines[-1:]
            why = failed[0] if failed else f"exit code {done.returncode}"
            raise HostError(f"hermes-pgvector {arguments[0]} failed: {why}")
        return done.stdout

    def stop(self) -> int:
        """Stop everything, in order; return how many processes had to be swept up.

        Writes are safe first (gateways), then the server and the embedding model,
        then the chat model. Whatever is left is ended by its id.
        """
        self.writers.stop()
        self.readers.stop()
        if self._model is not None:
            end(self._model, patience_s=5)
        return self.stop_server()

    def stop_server(self) -> int:
        """Stop the database and the embedding model, then sweep."""
        # The second host has no database of its own, and the first one's model.
        if self.first.path.exists():
            try:
                self.pgvector(self.first, "server", "stop")
            except HostError as exc:
                print(exc, file=sys.stderr)
        return processes.end(self.root, self.runtime)


def stop_kept(root: Path, runtime: Path, pids: Sequence[int]) -> None:
    """Stop a fleet that another process started and left running."""
    fleet = Fleet(root, runtime)
    for pid in pids:
        processes.end_one(pid, root, runtime, patience_s=STOP_S)
    fleet.stop_server()


def until(
    condition: Callable[[], bool], what_is_wrong: str, *, timeout_s: float
) -> None:
    """Wait for *condition*.

    Raises:
        HostError: It did not come true in *timeout_s*.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise HostError(f"{what_is_wrong} in {timeout_s:.0f} s")
        time.sleep(0.05)
