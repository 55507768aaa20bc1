from __future__ import annotations

import multiprocessing
import shutil
from pathlib import Path

import pytest

from hermes_pgmemory import file_ids
from hermes_pgmemory.paths import HomePaths


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_ids, "_homes", {})


def read_afresh(home: Path) -> tuple[str, ...]:
    """Return the ids as a process that starts now reads them."""
    file_ids._homes.clear()
    return file_ids.home_ids(HomePaths(home))


def _read_into(home: Path, queue: multiprocessing.Queue[tuple[str, ...]]) -> None:
    queue.put(read_afresh(home))


def test_stay_the_same_and_tell_neither_host_nor_path(tmp_path):
    ids = read_afresh(tmp_path)
    assert read_afresh(tmp_path) == ids
    (memory,) = file_ids.file_ids(HomePaths(tmp_path), "MEMORY.md")
    (user,) = file_ids.file_ids(HomePaths(tmp_path), "USER.md")
    assert memory != user
    assert len(memory) == 16
    assert (tmp_path / "pgvector" / "home-id").stat().st_mode & 0o077 == 0


def test_follow_a_home_that_moves(tmp_path):
    ids = read_afresh(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    assert read_afresh(tmp_path / "new") == ids


def test_of_a_copy_are_its_own_and_name_the_original(tmp_path):
    (original,) = read_afresh(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    copy, ancestor = read_afresh(tmp_path / "b")
    assert ancestor == original != copy
    assert read_afresh(tmp_path / "b") == (copy, ancestor)
    assert read_afresh(tmp_path / "a") == (original,)


def test_remember_only_so_many_ancestors(tmp_path):
    read_afresh(tmp_path / "0")
    for number in range(12):
        shutil.copytree(tmp_path / f"{number}", tmp_path / f"{number + 1}")
        ids = read_afresh(tmp_path / f"{number + 1}")
    assert len(ids) == file_ids.MAX_ANCESTORS + 1


@pytest.mark.parametrize("damage", ["", "12345\n", "12345"])
def test_survive_a_damaged_file(tmp_path, damage):
    (before,) = read_afresh(tmp_path)
    (tmp_path / "pgvector" / "home-id").write_text(damage)
    (after,) = read_afresh(tmp_path)
    assert after != before
    assert read_afresh(tmp_path) == (after,)


def test_do_without_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "pgvector").write_text("in the way")
    assert read_afresh(tmp_path) == read_afresh(tmp_path)


def test_are_one_for_processes_that_start_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [
        context.Process(target=_read_into, args=(tmp_path, queue)) for _ in range(4)
    ]
    for process in processes:
        process.start()
    found = {queue.get(timeout=60) for _ in processes}
    for process in processes:
        process.join()
        process.close()
    queue.close()
    queue.join_thread()
    assert len(found) == 1
