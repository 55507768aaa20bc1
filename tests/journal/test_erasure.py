"""Erasing records beside the process that writes them: all of those, and no others."""

from __future__ import annotations

import json
import threading
from contextlib import closing

import pytest

from hermes_pgmemory.journal import Journal, erasable

HERS = "the orchid in her greenhouse"


def record(text, number=0):
    return json.dumps({"content": text, "number": number})


def is_hers(text):
    return HERS in text


@pytest.fixture
def journal(tmp_path):
    with closing(Journal.claim(tmp_path, quota_bytes=1 << 24)) as journal:
        yield journal


def on_disk(folder):
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_nothing_is_left_not_even_of_what_was_acknowledged_long_ago(journal, tmp_path):
    journal.append([record(HERS * 300, n) for n in range(50)])
    journal.acknowledge(journal.pending(50))
    journal.append([record("his", 1), record(HERS), record(HERS * 9)])
    journal.bury(journal.pending(3)[-1], "refused")
    assert HERS.encode() in on_disk(tmp_path)
    [slot] = erasable(tmp_path)
    assert slot.erase(is_hers) == {"writes": 1, "dead_letters": 1}
    assert slot.scrub()
    assert HERS.encode() not in on_disk(tmp_path)
    assert [one.text for one in journal.pending(9)] == [record("his", 1)]
    assert (journal.depth, journal.has_dead_letters) == (1, False)


def test_an_agent_that_goes_on_writing_loses_nothing_and_is_not_refused(
    journal, tmp_path
):
    over = threading.Event()
    trouble = []

    def write():
        try:
            for number in range(400):
                journal.append([record(HERS, number), record("his", number)])
                if number % 50 == 0:
                    journal.sync()
        except BaseException as exc:  # noqa: BLE001 - told to the test below
            trouble.append(exc)
        finally:
            over.set()

    thread = threading.Thread(target=write)
    thread.start()
    [slot] = erasable(tmp_path)
    while not over.is_set():
        slot.erase(is_hers)
        slot.scrub()
    thread.join()
    assert trouble == []
    slot.erase(is_hers)
    texts = [one.text for one in journal.pending(1000)]
    assert texts == [record("his", number) for number in range(400)]


@pytest.mark.usefixtures("journal")
def test_a_slot_that_is_gone_holds_nothing(tmp_path):
    [slot] = erasable(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    assert slot.erase(is_hers) == {"writes": 0, "dead_letters": 0}
    assert slot.scrub()
    assert list(slot.raw()) == []
