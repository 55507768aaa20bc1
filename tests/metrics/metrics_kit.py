"""What the tests of the exporter share: real agents, real scrapes, promtool."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PATIENCE_S = 30.0

# Has imported everything when an agent is asked for, and becomes one in a child that
# it forks: as much a process as any, for a twentieth of the time.
MOTHER = """
import json, os, socket, sys
from hermes_pgmemory import telemetry
from hermes_pgmemory.telemetry import publisher
publisher.EVERY_S = telemetry.EVERY_S = 0.02  # often, so that a test need not wait
from hermes_pgmemory.provider import PgvectorProvider

def agent(home):
    provider = PgvectorProvider()
    provider.initialize(
        's1', platform='api_server', hermes_home=home,
        agent_context='primary', agent_identity='default', agent_workspace='hermes')
    return provider

def live(home):
    provider = agent(home)
    for line in sys.stdin:
        verb, _, rest = line.strip().partition(' ')
        if verb == 'write':
            provider.on_memory_write('add', 'memory', rest)
        elif verb == 'recall':
            provider.prefetch(rest)
        elif verb == 'fork':
            if os.fork() == 0:
                provider.on_memory_write('add', 'memory', rest)
                provider.shutdown()
                os._exit(0)
            os.wait()
        elif verb == 'end':
            provider.shutdown()
            break
        print('done', flush=True)

line = socket.socket(fileno=int(sys.argv[1]))
while True:
    order, pipes, _, _ = socket.recv_fds(line, 65536, 2)
    if not order:
        break
    told = json.loads(order)
    if dead := told.get('await'):
        status = os.waitpid(dead, 0)[1]
        line.send(str(os.waitstatus_to_exitcode(status)).encode())
    elif pid := os.fork():
        for pipe in pipes:
            os.close(pipe)
        line.send(str(pid).encode())
    else:
        line.close()
        for number, pipe in enumerate(pipes):
            os.dup2(pipe, number)
            os.close(pipe)
        os.environ.clear()
        os.environ.update(told['env'])
        live(told['home'])
        break
"""

Samples = Mapping[tuple[str, ...], float]
"""By name, then the labels as `name=value`."""


class Mother:
    """The process whose children are agents."""

    def __init__(self) -> None:
        self._line, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [sys.executable, "-c", MOTHER, str(there.fileno())],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def ask(self, pipes: Sequence[int] = (), **told: Any) -> int:
        """Have a child born, whose standard input and output are *pipes*, or awaited.

        Returns:
            Its process id, or its exit status.
        """
        socket.send_fds(self._line, [json.dumps(told).encode()], pipes)
        return int(self._line.recv(20))

    def end(self) -> None:
        self._line.close()
        assert self._process.wait(PATIENCE_S) == 0


class Agent:
    """A process with one agent, which does what it is told."""

    def __init__(self, mother: Mother, home: Path) -> None:
        stdin, ours = os.pipe()
        theirs, stdout = os.pipe()
        self._mother = mother
        self._pid = mother.ask([stdin, stdout], home=str(home), env=dict(os.environ))
        os.close(stdin)
        os.close(stdout)
        self._stdin, self._stdout = os.fdopen(ours, "w"), os.fdopen(theirs)
        self.lives = True

    def do(self, *words: str) -> None:
        self.tell(*words)
        assert self._stdout.readline() == "done\n"

    def tell(self, *words: str) -> None:
        self._stdin.write(f"{' '.join(words)}\n")
        self._stdin.flush()

    def end(self) -> None:
        """Shut the agent down as a host does."""
        self.tell("end")
        assert self._gone() == 0

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        assert self._gone() == -signal.SIGKILL

    def _gone(self) -> int:
        status = self._mother.ask(**{"await": self._pid})
        self.lives = False
        self._stdin.close()
        self._stdout.close()
        return status


class Served:
    """`hermes-pgvector metrics` in a process of its own."""

    def __init__(self, home: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [str(BIN / "hermes-pgvector"), "metrics", "--home", str(home), *words],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stderr.readline()
        assert "http://" in line, line + self.process.stderr.read()
        self.url = line.split()[-1]

    def text(self) -> str:
        with urlopen(self.url, timeout=PATIENCE_S) as answer:
            assert answer.status == 200
            return answer.read().decode()

    def samples(self) -> Samples:
        return samples_of(self.text())

    def end(self, sent: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Return the exit status, and what it said besides its address."""
        self.process.send_signal(sent)
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


def samples_of(text: str) -> Samples:
    return {
        (one.name, *(f"{name}={value}" for name, value in one.labels.items())): (
            one.value
        )
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def growing(samples: Samples) -> Samples:
    """Return those that may never go back."""
    ends = ("_total", "_bucket", "_count", "_sum")
    return {key: value for key, value in samples.items() if key[0].endswith(ends)}


def eventually(condition: Callable[[], Any], *, within_s: float = PATIENCE_S) -> Any:
    """Poll until *condition* holds, or fail the test; return what it returned."""
    deadline = monotonic() + within_s
    never = threading.Event()
    while not (result := condition()):
        if monotonic() > deadline:
            pytest.fail(f"not within {within_s} s: {condition()!r}")
        never.wait(0.02)
    return result


def configure(home: Path, **settings: Any) -> None:
    section = {"embed_on_write": False, "bulk_sync_on_init": False} | settings
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": section}}))


def promtool(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    program = shutil.which("promtool", path=path)
    assert program, "promtool is missing: run scripts/test once, or install it"
    return subprocess.run(
        [program, *words], input=given, capture_output=True, text=True, check=False
    )
