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


def note(lineage, session, parent, second, theme="work", subject=None):
    lineage.note(session, parent, at(second), theme=theme, subject=subject)


def test_a_session_knows_its_ancestors_and_until_when(lineage, tmp_path):
    note(lineage, "b", "a", 20)
    note(lineage, "c", "b", 10)
    assert Lineage(tmp_path).of("c") == {"b": 10, "a": 10}
    assert lineage.of("b") == {"a": 20}
    assert lineage.of("a") == {}


def test_a_circle_ends(lineage):
    note(lineage, "b", "a", 1)
    note(lineage, "a", "b", 2)
    assert lineage.of("a") == {"b": 2, "a": 1}


@pytest.mark.parametrize(
    "line",
    ['{"session":"c","parent":"b","at":3', '7\n["c","b",1]\n{"session":"c"}\n[]\n'],
    ids=["torn by a power cut", "of another kind"],
)
def test_a_line_that_tells_nothing_hides_no_other(lineage, tmp_path, line):
    note(lineage, "b", "a", 1)
    with (tmp_path / "lineage").open("a") as file:
        file.write(line)
    assert lineage.of("b") == {"a": 1}
    note(lineage, "d", "b", 4)
    assert lineage.of("d") == {"b": 4, "a": 1}


def test_what_belongs_to_somebody_is_erased_and_so_is_what_nobody_can_read(
    lineage, tmp_path
):
    note(lineage, "b", "a", 1, subject="anna")
    note(lineage, "c", "b", 2, subject="bert")
    with (tmp_path / "lineage").open("a") as file:
        file.write('{"session":"z","par')
    (tmp_path / "lineage.new").write_text("of a process that was killed")
    assert lineage.erase(lambda text: "anna" in text) == 1
    assert lineage.of("c") == {"b": 2}
    assert [path.name for path in tmp_path.iterdir() if "lock" not in path.name] == [
        "lineage"
    ]
    assert len(lineage.texts()) == 1


def test_where_nothing_is_noted_nothing_is_made(tmp_path):
    assert Lineage(tmp_path / "nowhere").erase(bool) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_used_is_told_of_and_costs_no_turn(
    lineage, tmp_path, caplog
):
    (tmp_path / "lineage").mkdir()
    assert lineage.of("b") == {}
    note(lineage, "b", "a", 1)
    assert [line.split()[1] for line in caplog.messages] == ["read", "write"]


def _note_many(folder: Path, name: str, start: threading.Barrier) -> None:
    """Note much beside another process; fail where a line of ours gets lost."""
    module.REMEMBERED = 16  # all the time one of them writes the file anew
    lineage = Lineage(folder)
    start.wait(60)
    for count in range(2_000):
        note(lineage, name, str(count), 0)
        lines = (folder / "lineage").read_text().splitlines()
        ours = [json.loads(line)["parent"] for line in lines if name in line]
        found = [*map(int, ours)]
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
