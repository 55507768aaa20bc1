"""What processes count reaches the total, whatever becomes of them."""

from __future__ import annotations

import json
import os
import stat

import pytest
from metrics_kit import configure, eventually

from hermes_pgmemory import survey, telemetry
from hermes_pgmemory.telemetry.folder import lock_path, try_lock

ACCEPTED = ("pgmemory_writes_total", "accepted")
STORED = ("pgmemory_writes_total", "stored")


def counted(folder, key=ACCEPTED) -> float:
    return telemetry.gather(folder).counted.get(key, 0.0)


def snapshots(folder) -> list:
    return sorted(folder.glob("process-*.json"))


@pytest.fixture(scope="module")
def remains():
    """What the folder of a killed process holds, by name, once one was killed."""
    return {}


@pytest.fixture
def left_behind(agent, folder, remains):
    """The snapshot of a process that was killed after three writes."""
    if remains:
        folder.mkdir(parents=True)
        for name, content in remains.items():
            (folder / name).write_bytes(content)
    else:
        one = agent()
        for number in range(3):
            one.do("write", f"note {number}")
        eventually(lambda: counted(folder) >= 4)  # with the sighting of the agent
        one.kill()
        remains |= {path.name: path.read_bytes() for path in folder.iterdir()}
    [path] = snapshots(folder)
    return path


class TestLiving:
    def test_one_that_ends_has_told_everything(self, agent, folder):
        one = agent()
        one.do("write", "a note")
        one.end()
        assert counted(folder) == counted(folder, STORED) == 2

    def test_all_are_added_up(self, agent, folder):
        agents = [agent() for _ in range(3)]
        for one in agents:
            one.do("write", "a note of its own")
        eventually(lambda: counted(folder) == 6)
        assert len(telemetry.gather(folder).living) == 3

    def test_what_was_stored_in_the_last_minute_is_told(self, agent, folder):
        one = agent()
        one.do("write", "a note")
        told = eventually(
            lambda: [s for s in telemetry.living(folder) if s.stored_last_minute == 2]
        )
        assert told[0].trouble == {}

    def test_a_forked_child_counts_from_zero(self, agent, folder):
        one = agent()
        one.do("write", "of the parent")
        eventually(lambda: counted(folder, STORED) == 2)
        one.do("fork", "of the child")
        one.end()
        # The sighting of the agent, and two notes.
        assert counted(folder) == counted(folder, STORED) == 3

    def test_nobody_else_may_read_the_numbers(self, agent, folder):
        agent().do("write", "a note")
        eventually(lambda: snapshots(folder))
        modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert modes == {0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_a_folder_that_somebody_deletes_comes_back(self, agent, folder):
        one = agent()
        one.do("write", "a note")
        eventually(lambda: snapshots(folder))
        for path in folder.iterdir():
            path.unlink()
        one.do("write", "another note")
        eventually(lambda: counted(folder) >= 3)
        assert len(telemetry.gather(folder).living) == 1

    def test_nobody_waits_for_a_process_that_stands_still(self, agent, folder):
        folder.mkdir(parents=True)
        held = try_lock(folder / "total.lock")
        one = agent()
        one.do("write", "a note")
        eventually(lambda: [s for s in telemetry.living(folder) if s.counted])
        with pytest.raises(BlockingIOError):
            telemetry.gather(folder, patience_s=0.05)
        os.close(held)
        one.end()
        assert counted(folder) == 2

    def test_a_lock_that_a_process_holds_without_a_file_stays(self, folder):
        folder.mkdir(parents=True)
        held = try_lock(folder / "process-x.lock")
        telemetry.gather(folder)
        assert (folder / "process-x.lock").exists()
        os.close(held)
        telemetry.gather(folder)
        assert not (folder / "process-x.lock").exists()


class TestDead:
    def test_one_that_is_killed_stays_counted_and_its_file_goes(
        self, left_behind, folder
    ):
        before = counted(folder)
        assert before >= 4
        assert {path.name for path in folder.iterdir()} == {"total.json", "total.lock"}
        assert telemetry.gather(folder).living == []
        assert counted(folder) == before

    def test_the_next_process_folds_it_without_an_exporter(self, left_behind, agent):
        agent()
        eventually(lambda: not left_behind.exists())

    def test_a_crash_while_folding_counts_nothing_twice(self, left_behind, folder):
        text = left_behind.read_text()
        before = counted(folder)
        # The total was written and the file not yet removed.
        left_behind.write_text(text)
        assert counted(folder) == before
        assert not left_behind.exists()
        assert counted(folder) == before

    @pytest.mark.parametrize("text", ["", "{", "[]", "\x00\x00"])
    def test_what_a_power_cut_left_counts_nothing(self, left_behind, folder, text):
        left_behind.write_text(text)
        assert counted(folder) == 0
        assert not left_behind.exists()

    def test_a_half_written_file_is_swept_away(self, left_behind, folder):
        half = left_behind.with_suffix(".1234.tmp")
        half.write_text("{")
        telemetry.gather(folder)
        assert not half.exists()
        assert not lock_path(left_behind).exists()

    def test_looking_at_the_living_changes_nothing(self, left_behind, folder):
        before = {path: path.read_bytes() for path in folder.iterdir()}
        assert list(telemetry.living(folder)) == []
        assert {path: path.read_bytes() for path in folder.iterdir()} == before

    def test_the_total_holds_no_theme_and_no_text(self, left_behind, folder):
        telemetry.gather(folder)
        data = json.loads((folder / "total.json").read_text())
        assert "note" not in json.dumps(data["counted"]).replace("notes", "")
        assert "default" not in json.dumps(data)


def test_a_home_without_a_folder_has_counted_nothing(tmp_path):
    assert telemetry.gather(tmp_path / "none") == telemetry.Gathered({}, ())
    assert list(tmp_path.iterdir()) == []


class TestStatus:
    def test_it_shows_how_fast_agents_write(self, agent, home):
        one = agent()
        one.do("write", "a note")
        part = eventually(
            lambda: (p := agents_part(home))["stored_last_minute"] == 2 and p
        )
        assert (part["state"], part["processes"]) == ("ok", 1)
        one.kill()
        assert agents_part(home)["state"] == "off"

    def test_it_shows_what_does_not_answer_and_why(self, agent, home):
        configure(home, dsn="host=127.0.0.1 port=1 user=u password=hunter2")
        one = agent()
        one.do("recall", "a question")
        part = eventually(lambda: (p := agents_part(home))["trouble"] and p)
        assert part["state"] == "unavailable"
        assert "database" in part["detail"]
        assert "hunter2" not in json.dumps(part)


def agents_part(home) -> dict:
    return survey.look(home).parts["agents"].as_data()
