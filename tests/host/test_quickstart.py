"""The quickstart as a user meets it: to its end, interrupted, in the wrong place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from _quickstart import processes

SCRIPTS = Path(__file__).parents[2] / "scripts"


def begin(home: Path, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "_quickstart"],
        env={
            **os.environ,
            "PYTHONPATH": str(SCRIPTS),
            "QUICKSTART_HOME": str(home),
            **options,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_whole_run_finds_everything_and_leaks_nothing(tmp_path: Path):
    home = tmp_path / "run"
    with begin(home) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    last = json.loads(out.splitlines()[-1])
    assert last["ok"]
    assert (last["themes"], last["leaks"]) == (3, 0)
    assert last["own_recall"] >= 0.99
    assert last["cross_theme_recall"] >= 0.99
    assert processes.ours(home, home) == []


@pytest.mark.parametrize(
    ("number", "moment"),
    [(signal.SIGINT, "door:"), (signal.SIGTERM, "[3/5]")],
    ids=["Ctrl-C during the setup", "SIGTERM while the minions work"],
)
def test_an_interrupted_run_says_so_and_leaves_no_process(
    tmp_path: Path, number: signal.Signals, moment: str
):
    home = tmp_path / "run"
    with begin(home) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if moment in line:
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    last = json.loads(out.splitlines()[-1])
    assert (last["ok"], last["reason"]) == (False, "interrupted")
    assert f"The logs are in {home}" in err
    assert processes.ours(home, home) == []


def test_a_folder_of_the_users_is_left_alone(tmp_path: Path):
    (tmp_path / "thesis.txt").touch()
    with begin(tmp_path) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "something else" in err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
