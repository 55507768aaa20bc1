"""What a killed process left of a file goes; what a living one writes stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from hermes_pgmemory import part_files
from hermes_pgmemory.part_files import part_of
from hermes_pgmemory.settings_file import update

_WRITER = """
import sys
from pathlib import Path
from hermes_pgmemory.part_files import part_of

with part_of(Path(sys.argv[1])) as fresh:
    fresh.write_text("half of it")
    print(fresh, flush=True)
    sys.stdin.read()
"""


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.part"))


def test_a_file_is_the_users_alone_and_goes_unless_it_was_renamed(tmp_path):
    path = tmp_path / "file"
    with part_of(path) as fresh:
        assert fresh.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []
    with part_of(path) as fresh:
        fresh.replace(path)
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_goes_and_what_a_living_one_writes_stays(tmp_path):
    path = tmp_path / "[me]mory.dump"
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with writer:
        assert writer.stdout is not None
        theirs = Path(writer.stdout.readline().strip())
        others = tmp_path / f"another{theirs.name}"
        others.write_text("of another file")
        told: list[str] = []
        with part_of(path, tell=told.append) as ours:
            assert parts(tmp_path) == sorted([theirs, ours, others])
        assert told == []
        writer.send_signal(signal.SIGKILL)
    with part_of(path, tell=told.append) as ours:
        assert parts(tmp_path) == sorted([ours, others])
    [line] = told
    assert str(theirs) in line


def test_a_file_that_another_takes_for_a_stray_is_made_again(tmp_path, monkeypatch):
    """It does so in the instant before its writer holds it locked."""
    lock = part_files.fcntl.flock
    taken: list[Path] = []

    def swept_before(fd: int, how: int) -> None:
        if not taken:
            taken.extend(parts(tmp_path))
            taken[0].unlink()
        lock(fd, how)

    monkeypatch.setattr(part_files.fcntl, "flock", swept_before)
    with part_of(tmp_path / "file") as fresh:
        assert parts(tmp_path) == [fresh]
    assert taken != [fresh]


def test_settings_of_a_killed_writer_go_with_the_next_change(tmp_path, caplog):
    config = tmp_path / "config.yaml"
    stray = tmp_path / "config.yaml.0123abcd.part"
    stray.write_text("dsn: with a password")
    update(config, {"plugins.pgvector.prefetch_limit": 3})
    assert {path.name for path in tmp_path.iterdir()} == {"config.yaml", "pgvector"}
    assert [str(stray) in line for line in caplog.messages] == [True]
