"""Every plug pulled while real processes write; nothing is lost, doubled or mixed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from _chaos import plan  # noqa: E402
from _chaos.book import Book  # noqa: E402
from _quickstart import processes  # noqa: E402


@pytest.fixture
def folder(room: Path) -> Iterator[Path]:
    """Where a run puts its files; short, for the sake of its sockets."""
    folder = Path(tempfile.mkdtemp(prefix="c-", dir=room))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def chaos(folder: Path):
    """Start `scripts/chaos` in the environment at hand; it is ended afterwards."""
    started: list[subprocess.Popen[str]] = []

    def chaos(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "_chaos", *arguments],
            env={**os.environ, "PYTHONPATH": _path(), "TMPDIR": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield chaos
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate()


def _path() -> str:
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, [given, str(ROOT / "scripts")]))


ROUNDS, SEED = 7, 3


@pytest.mark.timeout(600)  # half a minute, on two idle cores
def test_rounds_of_faults_lose_double_and_reorder_nothing(chaos, folder):
    run = chaos("--rounds", str(ROUNDS), "--seed", str(SEED))
    out, told = run.communicate()
    figures = json.loads(out.splitlines()[-1])
    wrong = (figures["lost"], figures["duplicated"], figures["out_of_order"])
    assert (run.returncode, wrong) == (0, (0, 0, 0)), told
    assert figures["rounds"] == ROUNDS
    assert figures["stored"] == figures["accepted"] > 0
    assert list(folder.iterdir()) == []


def test_an_interrupted_run_leaves_no_process_and_no_file(chaos, folder):
    run = chaos("--rounds", "9", "--seed", "1")
    assert run.stderr is not None
    # The first fault means that server, writers, proxy and endpoint are all there.
    while "round 1," not in run.stderr.readline():
        assert run.poll() is None
    (place,) = folder.iterdir()
    run.send_signal(signal.SIGINT)
    run.communicate()
    assert run.returncode == 130
    assert processes.ours(place, place / "run") == []
    assert list(folder.iterdir()) == []


class TestPlan:
    def test_is_the_same_for_the_same_seed_and_a_longer_run_begins_like_a_shorter(self):
        assert list(plan.rounds(7, 20))[:5] == list(plan.rounds(7, 5))
        assert list(plan.rounds(7, 5)) != list(plan.rounds(8, 5))

    def test_the_rounds_that_are_played_here_see_everything(self):
        acts = list(plan.rounds(SEED, ROUNDS))
        # Nobody notices a line that is cut where nobody has one.
        lines = {plan.Fault.CUT, plan.Fault.HALT, plan.Fault.DEAFEN}
        seen = {
            event.fault
            for act in acts
            for event in act.events
            if not (act.dark and event.fault in lines)
        }
        assert seen == set(plan.Fault)
        assert {end for act in acts for end in act.endings.values()} == {*plan.Ending}
        assert {act.dark for act in acts} == {True, False}
        assert {act.outlasting for act in acts if not act.dark} == {True, False}
        assert any(act.kill_drainer_after_s for act in acts)


class TestJudging:
    """A count of zero means something only if the count can be another."""

    PLACE = ("marketing", "memory")

    @pytest.fixture
    def told(self, tmp_path):
        """Tell a new book what a writer announced; *cut* leaves the last one open."""

        def told(*operations, cut: bool = False) -> Book:
            lines = []
            for operation in operations:
                theme = {"theme": "marketing", "content": ""}
                lines += [theme | operation, {"outcome": "accepted"}]
            lines = lines[:-1] if cut else lines
            file = tmp_path / "announced"
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
            book = Book()
            book.read(file, "marketing")
            return book

        return told

    @staticmethod
    def add(key, revision=1):
        text = f"[{key} revision {revision}]"
        return {"kind": "add", "key": key, "content": text}

    def replace(self, key, old, new):
        before = f"[{key} revision {old}]"
        return self.add(key, new) | {"kind": "replace", "old": before}

    @staticmethod
    def turn(number):
        said = (f"question {number}", f"answer {number}")
        return {"kind": "turn", "session": "s", "said": said}

    @staticmethod
    def counts(verdict):
        return verdict.lost, verdict.duplicated, verdict.out_of_order

    def entries(self, book, *rows):
        texts = [f"[{key} revision {revision}]" for key, revision in rows]
        return self.counts(book.compare([(*self.PLACE, text) for text in texts], []))

    def turns(self, book, *numbers):
        rows = [
            ("marketing", "s", role, f"{word} {number}")
            for number in numbers
            for role, word in (("user", "question"), ("assistant", "answer"))
        ]
        return self.counts(book.compare([], rows))

    def test_of_entries(self, told):
        first, second = "memory/a", "memory/b"
        book = told(self.add(first), self.add(second), self.replace(first, 1, 3))
        assert self.entries(book, (first, 3), (second, 1)) == (0, 0, 0)
        assert self.entries(book, (first, 3)) == (1, 0, 0)
        assert self.entries(book, (first, 1), (first, 3), (second, 1)) == (0, 1, 0)
        assert self.entries(book, (first, 1), (second, 1)) == (0, 0, 1)
        assert self.entries(book, (second, 1), (first, 3)) == (0, 0, 1)

    def test_of_a_write_cut_short(self, told):
        key = "memory/a"
        book = told(self.add(key), self.replace(key, 1, 2), cut=True)
        assert self.entries(book, (key, 1)) == (0, 0, 0)
        assert self.entries(book, (key, 2)) == (0, 0, 0)
        assert self.entries(book, (key, 1), (key, 2)) == (0, 0, 1)
        assert self.entries(book) == (0, 0, 1)

    def test_of_turns(self, told):
        book = told(self.turn(1), self.turn(2), self.turn(1))
        assert self.turns(book, 1, 2, 1) == (0, 0, 0)
        assert self.turns(book, 1, 2) == (2, 0, 0)
        assert self.turns(book, 1, 2, 1, 2) == (0, 2, 0)
        assert self.turns(book, 2, 1, 1) == (0, 0, 1)

    def test_of_a_turn_cut_short(self, told):
        book = told(self.turn(1), self.turn(2), cut=True)
        assert self.turns(book, 1) == (0, 0, 0)
        assert self.turns(book, 1, 2) == (0, 0, 0)
        assert self.turns(book) == (2, 0, 0)

    def test_of_half_a_turn(self, told):
        half = [("marketing", "s", "user", "question 1")]
        book = told(self.turn(1), cut=True)
        assert self.counts(book.compare([], half)) == (1, 0, 0)
        book = told(self.turn(1))
        assert self.counts(book.compare([], half)) == (1, 0, 0)
        other = [("marketing", "s", "assistant", "answer 1"), *half]
        assert self.counts(book.compare([], other)) == (0, 0, 1)
        book = told(self.turn(1), cut=True)
        assert self.counts(book.compare([], other)) == (0, 0, 1)


def test_waiting_costs_no_processor_time(tmp_path, dsn_of):
    """An idle agent, and one whose database is away, do not spin."""
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(tmp_path), dsn_of(8)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert agent.stdin is not None
    assert agent.stdout is not None
    process = psutil.Process(agent.pid)
    for state in ("stored", "away"):
        assert agent.stdout.readline() == f"{state}\n"
        before = process.cpu_times()
        threading.Event().wait(2)
        after = process.cpu_times()
        spent_s = after.user + after.system - before.user - before.system
        # A loop that spins takes all of two seconds, one with 1 ms pauses a tenth.
        assert spent_s < 0.1, state
        agent.stdin.write("on\n")
        agent.stdin.flush()
    agent.communicate()
    assert agent.returncode == 0


AGENT = """
import json, sys, time
from pathlib import Path
from hermes_pgmemory.provider import PgvectorProvider

def agent(home, dsn, ready):
    home.mkdir()
    section = {"dsn": dsn, "embed_on_write": False}
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": section}}))
    provider = PgvectorProvider()
    provider.initialize("s1", hermes_home=str(home), platform="cli",
                        agent_context="primary", gateway_session_key="marketing")
    for number in range(50):
        provider.on_memory_write("add", "memory", f"note {number}", {})
    while not ready(provider._engine):
        time.sleep(0.01)
    return provider

folder = Path(sys.argv[1])
stored = agent(folder / "idle", sys.argv[2], lambda engine: not engine.journal_depth)
print("stored", flush=True)
sys.stdin.readline()
stored.shutdown()
nowhere = f"host={folder}/nowhere dbname=x"
away = agent(folder / "away", nowhere, lambda engine: engine.writer.outage)
print("away", flush=True)
sys.stdin.readline()
away.shutdown()
"""
