"""What the tests of the exporter share: real agents, real scrapes, promtool."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PATIENCE_S = 30.0

# Publishes often, so that a test need not wait.
AGENT = """
import os, sys
from hermes_pgmemory import telemetry
from hermes_pgmemory.telemetry import publisher
publisher.EVERY_S = telemetry.EVERY_S = 0.02
from hermes_pgmemory.provider import PgvectorProvider

def agent():
    provider = PgvectorProvider()
    provider.initialize(
        's1', platform='api_server', hermes_home=sys.argv[1],
        agent_context='primary', agent_identity='default', agent_workspace='hermes')
    return provider

provider = agent()
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
"""

Samples = Mapping[tuple[str, ...], float]
"""By name, then the labels as `name=value`."""


class Agent:
    """A process with one agent, which does what it is told."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", AGENT, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, *words: str) -> None:
        self.tell(*words)
        assert self.process.stdout.readline() == "done\n"

    def tell(self, *words: str) -> None:
        self.process.stdin.write(f"{' '.join(words)}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Shut the agent down as a host does."""
        self.tell("end")
        assert self.process.wait(PATIENCE_S) == 0
        self._close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._close()

    def _close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()


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
