"""A small fleet loses a standby and its primary; and what its judge would have seen."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

from _fleet.roster import BUCKET, Kind, Minion, roster, strangers  # noqa: E402
from _fleet.verdict import mixed  # noqa: E402
from _quickstart import processes  # noqa: E402
from _servers.keeping import eventually  # noqa: E402

from hermes_pgmemory.contacts import veiled  # noqa: E402


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a run puts its files; short, for the sake of its sockets."""
    folder = Path(tempfile.mkdtemp(prefix="f-", dir="/tmp"))
    folder.chmod(0o711)  # its servers may run under another account
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def fleet(folder: Path):
    """Start `scripts/fleet` in the environment at hand; it is ended afterwards."""
    started: list[subprocess.Popen[str]] = []

    def fleet(*arguments: str) -> subprocess.Popen[str]:
        path = [os.environ.get("PYTHONPATH", ""), str(SCRIPTS)]
        environment = {
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "TMPDIR": str(folder),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "_fleet", *arguments],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield fleet
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate()


def test_of_a_few_minions_loses_nothing_with_its_standby_and_its_primary(fleet, folder):
    run = fleet("--minions", "8", "--hosts", "2", "--seconds", "5", "--seed", "3")
    out, told = run.communicate()
    figures = json.loads(out.splitlines()[-1])
    bad = ("lost", "duplicated", "out_of_order", "errors", "leaks")
    assert (run.returncode, [figures[key] for key in bad]) == (0, [0] * 5), told
    assert figures["stored"] == figures["accepted"] > 0
    assert figures["failover_s"] > 0
    assert figures["recall_ms"].keys() == {"p50", "p95", "p99"}
    assert list(folder.iterdir()) == []


def test_an_interrupted_one_leaves_no_process_and_no_file(fleet, folder):
    run = fleet("--minions", "2", "--hosts", "1", "--seconds", "60", "--seed", "1")
    begun = eventually(lambda: list(folder.glob("*/minion-001.accepted")), within_s=120)
    place = begun[0].parent
    assert len(processes.ours(place, place / "run")) > 4
    run.send_signal(signal.SIGINT)
    run.communicate()
    assert run.returncode == 130
    assert processes.ours(place, place / "run") == []
    assert list(folder.iterdir()) == []


class TestRoster:
    def test_is_the_same_for_the_same_seed(self):
        assert roster(40, 4, 7) == roster(40, 4, 7) != roster(40, 4, 8)

    def test_has_every_kind_on_every_host_of_a_large_fleet(self):
        fleet = roster(200, 8, 1)
        assert {(one.host, one.kind) for one in fleet} == {
            (host, kind) for host in range(8) for kind in Kind
        }
        assert Counter(one.host for one in fleet) == dict.fromkeys(range(8), 25)

    def test_peers_are_those_of_the_same_theme_but_in_the_bucket(self):
        fleet = roster(64, 4, 1)
        for one in fleet:
            same = {other.name for other in fleet if other.theme == one.theme}
            assert set(one.peers) == ({one.name} if one.kind is Kind.CHAT else same)
        assert max(len(one.peers) for one in fleet) > 1

    def test_names_sessions_as_the_host_does_so_that_chats_need_not_hide_them(self):
        sessions = {one.session for one in roster(300, 8, 1)}
        assert len(sessions) == 300
        assert {veiled(session, b"key") for session in sessions} == sessions

    def test_survives_its_way_to_a_host(self):
        for one in roster(8, 2, 1):
            assert Minion.from_json(json.loads(json.dumps(one.to_json()))) == one


class TestJudging:
    """A count of zero means something only if the count can be another."""

    FLEET = (
        Minion("minion-001", Kind.OWN, "minion-001", 0, ("minion-001",)),
        Minion("minion-002", Kind.CHAT, BUCKET, 0, ("minion-002",)),
        Minion("minion-003", Kind.CHAT, BUCKET, 0, ("minion-003",)),
    )
    WELL = (
        ("minion-001", None, "[memory/minion-001-1 revision 1]"),
        (BUCKET, "aa", "minion-002 asks"),
        (BUCKET, "bb", "minion-003 asks"),
    )

    def test_passes_what_is_well(self):
        assert mixed(self.FLEET, self.WELL) == []

    @pytest.mark.parametrize(
        "row",
        [
            ("minion-001", None, "minion-002 asks"),
            ("minion-001", "cc", "minion-001 asks"),
            (BUCKET, None, "minion-002 asks"),
            (BUCKET, "aa", "minion-003 asks"),
        ],
    )
    def test_finds_a_row_in_a_strangers_place(self, row):
        assert mixed(self.FLEET, [*self.WELL, row])

    def test_finds_a_strangers_words(self):
        answer = "minion-001 asks; minion-002 answers"
        assert strangers(answer, ["minion-001"]) == {"minion-002"}
        assert strangers(answer, ["minion-001", "minion-002"]) == set()
