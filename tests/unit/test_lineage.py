from __future__ import annotations

import json
import multiprocessing
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes_pgmemory import lineage as module
from hermes_pgmemory.lineage import Lineage


def at(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC)


@pytest.fixture
def lineage(tmp_path):
    return Lineage(tmp_path)


def test_a_session_knows_its_ancestors_and_until_when(lineage, tmp_path):
    lineage.note("b", "a", at(20))
    lineage.note("c", "b", at(10))
    assert Lineage(tmp_path).of("c") == {"b": 10, "a": 10}
    assert lineage.of("b") == {"a": 20}
    assert lineage.of("a") == {}


def test_a_circle_ends(lineage):
    lineage.note("b", "a", at(1))
    lineage.note("a", "b", at(2))
    assert lineage.of("a") == {"b": 2, "a": 1}


def test_a_torn_line_hides_no_other(lineage, tmp_path):
    lineage.note("b", "a", at(1))
    with (tmp_path / "lineage").open("a") as file:
        file.write('["c", "b", 3')
    assert lineage.of("b") == {"a": 1}
    lineage.note("d", "b", at(4))
    assert lineage.of("d") == {"b": 4, "a": 1}


def test_a_line_of_another_kind_hides_no_other(lineage, tmp_path):
    lineage.note("b", "a", at(1))
    with (tmp_path / "lineage").open("a") as file:
        file.write('7\n["c", "b", null]\n[]\n')
    assert lineage.of("b") == {"a": 1}


def test_a_file_that_cannot_be_used_is_told_of_and_costs_no_turn(
    lineage, tmp_path, caplog
):
    (tmp_path / "lineage").mkdir()
    assert lineage.of("b") == {}
    lineage.note("b", "a", at(1))
    assert [line.split()[1] for line in caplog.messages] == ["read", "write"]


def _note_many(folder: Path, name: str, start: threading.Barrier) -> None:
    """Note much beside another process; fail where a line of ours gets lost."""
    module.REMEMBERED = 16  # all the time one of them writes the file anew
    lineage = Lineage(folder)
    start.wait(60)
    for count in range(2_000):
        lineage.note(name, str(count), at(0))
        lines = (folder / "lineage").read_text().splitlines()
        found = [int(json.loads(line)[1]) for line in lines if name in line]
        assert found == [*range(count - len(found) + 1, count + 1)]


def test_processes_that_write_the_file_anew_lose_no_line_of_each_other(tmp_path):
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    both = [
        context.Process(target=_note_many, args=(tmp_path, name, start))
        for name in ("first", "second")
    ]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    for process in both:
        process.close()
