"""The journal keeps what it accepted, in order, whatever happens to its process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from hermes_pgmemory.errors import JournalUnavailable
from hermes_pgmemory.journal import Journal, inspect, orphans, waiting

QUOTA = 1 << 20

WRITER = """
import sys
from pathlib import Path
from hermes_pgmemory.journal import Journal
journal = Journal.claim(Path(sys.argv[1]), quota_bytes=1 << 30)
number = 0
while True:
    journal.append([f"write {number}"])
    print(number, flush=True)
    number += 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    # What a home may be called, too; SQLite's URIs mean other things by it.
    return tmp_path / "home #1?%41" / "journal"


@pytest.fixture
def journal(folder: Path):
    journal = Journal.claim(folder, quota_bytes=QUOTA)
    yield journal
    journal.close()


def texts(journal: Journal) -> list[str]:
    return [record.text for record in journal.pending(10_000)]


class TestQueue:
    def test_gives_back_what_went_in_oldest_first(self, journal):
        for text in "abc":
            journal.append([text])
        assert texts(journal) == ["a", "b", "c"]

    def test_forgets_what_is_acknowledged_and_nothing_else(self, journal):
        for text in "abcd":
            journal.append([text])
        journal.acknowledge(journal.pending(2))
        assert texts(journal) == ["c", "d"]
        assert journal.depth == 2

    def test_positions_rise_even_after_everything_was_acknowledged(self, journal):
        journal.append(["a"])
        (first,) = journal.pending(1)
        journal.acknowledge([first])
        journal.append(["b"])
        (second,) = journal.pending(1)
        assert second.position > first.position

    def test_survives_closing_and_stays_apart_from_the_next(self, folder):
        first = Journal.claim(folder, quota_bytes=QUOTA)
        first.append(["kept"])
        first.close()
        second = Journal.claim(folder, quota_bytes=QUOTA)
        second.append(["new"])
        assert texts(second) == ["new"]
        for orphan in orphans(folder, quota_bytes=QUOTA):
            (kept,) = orphan.pending(2)
            assert kept.text == "kept"
            assert kept.epoch == first.epoch != second.epoch
        second.close()

    def test_takes_several_writes_or_none(self, folder):
        journal = Journal.claim(folder, quota_bytes=100)
        journal.append(["a", "b"])
        with pytest.raises(JournalUnavailable):
            journal.append(["c", "x" * 200])
        assert texts(journal) == ["a", "b"]
        journal.close()

    def test_a_buried_write_leaves_the_queue_and_is_counted(self, journal, folder):
        for text in "abc":
            journal.append([text])
        journal.bury(journal.pending(3)[1], "refused")
        assert texts(journal) == ["a", "c"]
        assert inspect(folder).dead_letters == 1

    def test_burying_twice_counts_once(self, journal, folder):
        journal.append(["a"])
        (record,) = journal.pending(1)
        journal.bury(record, "refused")
        journal.bury(record, "refused")
        assert inspect(folder).dead_letters == 1
        assert journal.depth == 0

    def test_buried_writes_are_counted_no_more(self, folder):
        journal = Journal.claim(folder, quota_bytes=100)
        journal.append(["x" * 40])
        journal.append(["y" * 40])
        records = journal.pending(2)
        journal.bury(records[0], "refused")
        journal.acknowledge(records)
        assert journal.depth == 0
        journal.append(["z" * 90])
        with pytest.raises(JournalUnavailable):
            journal.append(["z" * 40])
        journal.close()

    def test_takes_any_text(self, journal):
        text = '{"content":"\\ud83c quotes \' % \\u0000"}' + "ü" * 70_000
        journal.append([text])
        assert texts(journal) == [text]

    def test_takes_writes_from_many_threads(self, journal):
        def work(name: int) -> None:
            for number in range(50):
                journal.append([f"{name} {number}"])

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = texts(journal)
        assert len(kept) == 400
        for name in range(8):
            own = [text for text in kept if text.startswith(f"{name} ")]
            assert own == [f"{name} {number}" for number in range(50)]


class TestQuota:
    def test_refuses_beyond_it_and_says_what_to_change(self, folder):
        journal = Journal.claim(folder, quota_bytes=100)
        journal.append(["x" * 60])
        with pytest.raises(JournalUnavailable, match="journal_quota_mb"):
            journal.append(["x" * 60])
        assert texts(journal) == ["x" * 60]
        journal.close()

    def test_takes_writes_again_once_drained(self, folder):
        journal = Journal.claim(folder, quota_bytes=100)
        journal.append(["x" * 90])
        journal.acknowledge(journal.pending(1))
        journal.append(["y" * 90])
        assert texts(journal) == ["y" * 90]
        journal.close()


class TestDisk:
    def test_everything_is_private(self, journal, folder):
        journal.append(["secret"])
        journal.sync()
        assert folder.stat().st_mode & 0o077 == 0
        for path in folder.iterdir():
            assert path.stat().st_mode & 0o077 == 0, path

    def test_the_log_does_not_grow_without_end_under_load(self, journal, folder):
        for round_ in range(6):
            for number in range(1_500):
                journal.append([f"{round_} {number} " + "x" * 500])
            journal.acknowledge(journal.pending(10_000))
            journal.sync()
        (log,) = folder.glob("*-wal")
        assert log.stat().st_size < 64 << 20

    def test_an_unusable_folder_is_named(self, tmp_path):
        (tmp_path / "file").write_text("not a folder")
        with pytest.raises(JournalUnavailable, match="file/journal"):
            Journal.claim(tmp_path / "file" / "journal", quota_bytes=QUOTA)

    def test_a_damaged_journal_is_told_of_and_holds_up_no_other(
        self, journal, folder, caplog
    ):
        dead = Journal.claim(folder, quota_bytes=QUOTA)
        dead.append(["left behind"])
        dead.close()
        (folder / "broken.sqlite3").write_bytes(b"no database " * 500)
        (folder / "0-broken.sqlite3").write_bytes(b"no database " * 500)
        living = Journal.claim(folder, quota_bytes=QUOTA)
        living.close()
        left = [texts(orphan) for orphan in orphans(folder, quota_bytes=QUOTA)]
        assert left == [["left behind"]]
        assert "broken.sqlite3 is left alone: cannot open" in caplog.text


class TestOwnership:
    def test_two_claims_never_share_a_slot(self, folder):
        first = Journal.claim(folder, quota_bytes=QUOTA)
        second = Journal.claim(folder, quota_bytes=QUOTA)
        first.append(["mine"])
        assert texts(second) == []
        assert inspect(folder).slots == 2
        first.close()
        second.close()

    def test_a_killed_process_loses_nothing(self, folder):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        accepted = [int(writer.stdout.readline()) for _ in range(500)][-1]
        writer.send_signal(signal.SIGKILL)
        accepted = max([accepted, *map(int, writer.stdout.read().split())])
        writer.stdout.close()
        writer.wait()
        (kept,) = map(texts, orphans(folder, quota_bytes=QUOTA))
        assert kept[: accepted + 1] == [f"write {n}" for n in range(accepted + 1)]
        assert len(kept) <= accepted + 2  # one may be accepted and not yet printed

    def test_a_living_process_keeps_its_slot(self, journal, folder):
        journal.append(["mine"])
        assert list(orphans(folder, quota_bytes=QUOTA)) == []

    def test_orphans_are_offered_and_removed_once_empty(self, journal, folder):
        dead = Journal.claim(folder, quota_bytes=QUOTA)
        dead.append(["left behind"])
        dead.close()
        for orphan in orphans(folder, quota_bytes=QUOTA):
            assert texts(orphan) == ["left behind"]
            orphan.acknowledge(orphan.pending(10))
        assert inspect(folder).slots == 1
        assert journal.depth == 0

    def test_orphans_come_in_the_order_in_which_their_processes_started(
        self, journal, folder
    ):
        first = Journal.claim(folder, quota_bytes=QUOTA)
        second = Journal.claim(folder, quota_bytes=QUOTA)
        second.append(["of the second"])
        first.append(["of the first"])
        first.close()
        second.close()
        third = Journal.claim(folder, quota_bytes=QUOTA)
        third.append(["of the third"])
        third.close()
        left = [texts(orphan) for orphan in orphans(folder, quota_bytes=QUOTA)]
        assert left == [["of the first"], ["of the second"], ["of the third"]]

    def test_a_free_slot_is_used_again_unless_writes_lie_behind_it(self, folder):
        first = Journal.claim(folder, quota_bytes=QUOTA)
        second = Journal.claim(folder, quota_bytes=QUOTA)
        second.append(["waits"])
        first.close()
        second.close()
        third = Journal.claim(folder, quota_bytes=QUOTA)
        assert texts(third) == []
        assert inspect(folder).slots == 3
        third.close()
        Journal.claim(folder, quota_bytes=QUOTA).close()
        assert inspect(folder).slots == 3

    def test_one_process_at_a_time_takes_orphans_over(self, journal, folder):
        for text in ("older", "newer"):
            dead = Journal.claim(folder, quota_bytes=QUOTA)
            dead.append([text])
            dead.close()
        give_up = threading.Event()
        at_it = orphans(folder, quota_bytes=QUOTA)
        older = next(at_it)
        give_up.set()
        with pytest.raises(JournalUnavailable, match="another process"):
            next(orphans(folder, quota_bytes=QUOTA, give_up=give_up))
        assert list(orphans(folder, quota_bytes=QUOTA, wait=False)) == []
        older.acknowledge(older.pending(10))
        assert texts(next(at_it)) == ["newer"]
        at_it.close()
        left = [texts(orphan) for orphan in orphans(folder, quota_bytes=QUOTA)]
        assert left == [["newer"]]

    def test_a_child_forked_meanwhile_does_not_hold_them_back(self, journal, folder):
        dead = Journal.claim(folder, quota_bytes=QUOTA)
        dead.append(["left behind"])
        dead.close()
        at_it = orphans(folder, quota_bytes=QUOTA)
        next(at_it)
        child = multiprocessing.get_context("fork").Process(target=signal.pause)
        child.start()
        at_it.close()
        left = [texts(orphan) for orphan in orphans(folder, quota_bytes=QUOTA)]
        child.kill()
        child.join()
        assert left == [["left behind"]]

    def test_an_orphan_with_dead_letters_is_kept_for_inspection(self, journal, folder):
        dead = Journal.claim(folder, quota_bytes=QUOTA)
        dead.append(["bad"])
        dead.close()
        for orphan in orphans(folder, quota_bytes=QUOTA):
            orphan.bury(orphan.pending(1)[0], "refused")
        assert inspect(folder).dead_letters == 1
        assert journal.depth == 0

    def test_a_forked_child_leaves_the_slot_to_its_parent(self, journal, folder):
        journal.append(["before"])
        child = multiprocessing.get_context("fork").Process(target=journal.abandon)
        child.start()
        child.join()
        journal.append(["after"])
        assert texts(journal) == ["before", "after"]
        assert list(orphans(folder, quota_bytes=QUOTA)) == []


class TestInspect:
    def test_of_a_folder_that_is_not_there_is_empty(self, folder):
        status = inspect(folder)
        assert (status.slots, status.pending, status.oldest_age_s) == (0, 0, None)
        assert not folder.exists()

    def test_counts_every_slot_while_they_are_in_use(self, journal, folder):
        other = Journal.claim(folder, quota_bytes=QUOTA)
        journal.append(["a"])
        other.append(["b"])
        other.append(["c"])
        status = inspect(folder)
        other.close()
        assert status.pending == 3
        assert status.bytes > 0
        assert status.oldest_age_s is not None
        assert status.oldest_age_s >= 0

    def test_changes_nothing(self, journal, folder):
        journal.append(["a"])
        before = sorted(path.name for path in folder.iterdir())
        inspect(folder)
        assert sorted(path.name for path in folder.iterdir()) == before
        assert texts(journal) == ["a"]


def test_appends_never_wait_for_a_long_reader(journal, folder):
    """A status command that reads slowly must not stop an agent."""
    journal.append(["a"])
    (slot,) = folder.glob("*.sqlite3")
    reader = sqlite3.connect(f"{slot.as_uri()}?mode=ro", uri=True)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM writes").fetchone() == (1,)
    journal.append(["b"])
    journal.sync()
    reader.close()
    assert texts(journal) == ["a", "b"]


def test_the_lock_does_not_outlive_a_killed_holder(folder):
    holder = multiprocessing.get_context("fork").Process(
        target=lambda: (Journal.claim(folder, quota_bytes=QUOTA), signal.pause())
    )
    holder.start()
    while not list(folder.glob("*.sqlite3")) or inspect(folder).slots == 0:
        assert holder.is_alive()
        os.sched_yield()
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    assert list(orphans(folder, quota_bytes=QUOTA)) == []
    assert inspect(folder).slots == 0


class TestWaiting:
    def test_sees_what_waits_in_any_slot_until_it_is_acknowledged(self, folder):
        assert not waiting(folder, ("a", "b"))
        with (
            closing(Journal.claim(folder, quota_bytes=QUOTA)) as first,
            closing(Journal.claim(folder, quota_bytes=QUOTA)) as second,
        ):
            first.append(["zab"])
            assert not waiting(folder, ("a", "b"))
            second.append(["z", "bcd"])
            assert waiting(folder, ("a", "b"))
            second.acknowledge(second.pending(2))
            assert not waiting(folder, ("a", "b"))

    def test_is_not_held_up_by_a_slot_that_holds_nothing_readable(self, folder):
        folder.mkdir(parents=True)
        (folder / "0000000001-x.sqlite3").write_bytes(b"damaged" * 1000)
        (folder / "0000000002-x.sqlite3").touch()
        assert not waiting(folder, ("a",))


class TestOutage:
    def test_is_left_for_others_to_read_as_long_as_something_waits(
        self, folder, journal
    ):
        journal.note_outage(1_700_000_000.0, "no database")
        assert inspect(folder).outage_since is None
        journal.append(["a"])
        told = inspect(folder)
        assert (told.outage_since, told.outage_reason) == (
            1_700_000_000.0,
            "no database",
        )
        journal.note_outage(None)
        assert inspect(folder).outage_since is None

    def test_of_several_processes_the_longest_counts(self, folder, journal):
        other = Journal.claim(folder, quota_bytes=QUOTA)
        for one, since in ((journal, 200.0), (other, 100.0)):
            one.append(["a"])
            one.note_outage(since, f"since {since:.0f}")
        other.close()  # also that of a process that is gone
        assert inspect(folder).outage_reason == "since 100"

    def test_is_not_inherited_with_an_empty_slot(self, folder):
        before = Journal.claim(folder, quota_bytes=QUOTA)
        before.note_outage(100.0, "long ago")
        before.close()
        after = Journal.claim(folder, quota_bytes=QUOTA)
        after.append(["a"])
        assert inspect(folder).outage_since is None
        after.close()

    def test_is_unknown_of_a_slot_that_has_no_place_for_it(self, folder, journal):
        journal.append(["a"])
        journal._hook.execute("DROP TABLE outage")
        told = inspect(folder)
        assert (told.pending, told.outage_since) == (1, None)
