"""A first start, with nothing there before."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest
from embedded_kit import (
    MakeHome,
    as_root,
    execute,
    server_account,
    server_of,
    value,
)

from hermes_pgmemory.embedded import EmbeddedServer

Rights = tuple[int, int, int]


@dataclass(frozen=True)
class FirstStart:
    """A first start in the worst of environments, and what was before."""

    home: Path
    dsn_before: str
    rights_before: list[Rights]


@pytest.fixture(scope="module")
def started(temporary_home: MakeHome) -> Iterator[FirstStart]:
    with temporary_home() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-for-the-agent-only")
        patch.setenv("PGPORT", "6543")
        patch.setenv("PGDATA", "/nonexistent")
        patch.setenv("LC_ALL", "tr_TR.UTF-8")
        server = server_of(home)
        before = FirstStart(home, server.dsn, _rights_above(home))
        umask = os.umask(0)
        try:
            server.ensure_running()
        finally:
            os.umask(umask)
        yield before


class TestFirstStart:
    def test_gives_a_working_database_with_vectors(self, started: FirstStart) -> None:
        server = server_of(started.home)
        execute(server, "CREATE EXTENSION vector")
        assert value(server, "SELECT '[3,4]'::vector <-> '[0,0]'") == 5
        assert server.dsn == started.dsn_before

    def test_leaves_every_directory_above_as_it_was(self, started: FirstStart) -> None:
        assert _rights_above(started.home) == started.rights_before

    def test_creates_nothing_that_others_may_use(self, started: FirstStart) -> None:
        found = [
            path for path in started.home.rglob("*") if path.lstat().st_mode & 0o77
        ]
        assert found == []

    def test_hands_no_secret_of_the_agent_to_the_server(
        self, started: FirstStart
    ) -> None:
        server = psutil.Process(server_of(started.home).status().pid)
        assert "PATH" in server.environ()
        assert "OPENAI_API_KEY" not in server.environ()

    def test_creates_a_missing_home_for_its_owner_alone(
        self, started: FirstStart
    ) -> None:
        below = started.home / "not" / "there"
        server = server_of(below)
        server.ensure_running()
        server.stop()
        assert stat.S_IMODE(below.stat().st_mode) == 0o700


def _rights_above(home: Path) -> list[Rights]:
    found = [path.stat() for path in (home, *home.parents)]
    return [(each.st_mode, each.st_uid, each.st_gid) for each in found]


class TestRunningServer:
    @pytest.mark.parametrize(
        ("setting", "expected"),
        [
            ("server_encoding", "UTF8"),
            ("data_checksums", "on"),
            ("listen_addresses", ""),
            ("unix_socket_permissions", "0700"),
            ("jit", "off"),
            ("wal_level", "replica"),
            ("TimeZone", "UTC"),
        ],
    )
    def test_is_set_up_as_documented(
        self, shared: EmbeddedServer, setting: str, expected: str
    ) -> None:
        assert value(shared, f"SELECT current_setting('{setting}')") == expected

    def test_understands_the_settings_file_whole(self, shared: EmbeddedServer) -> None:
        query = "SELECT count(*) FROM pg_file_settings WHERE error IS NOT NULL"
        assert value(shared, query) == 0

    def test_knows_letters_from_punctuation_in_any_script(
        self, shared: EmbeddedServer
    ) -> None:
        query = "SELECT to_tsvector('simple', '“ÄPFEL” — Привет… 東京')::text"
        assert value(shared, query) == "'äpfel':1 'привет':2 '東京':3"

    def test_listens_on_no_network(self, shared: EmbeddedServer) -> None:
        # Only the first process listens; what it hands to the others is its own.
        server = psutil.Process(shared.status().pid)
        assert server.net_connections(kind="unix") != []
        assert server.net_connections(kind="inet") == []

    def test_belongs_to_an_unprivileged_account(self, shared: EmbeddedServer) -> None:
        uids = psutil.Process(shared.status().pid).uids()
        assert set(uids) == {server_account().pw_uid}

    @as_root
    def test_has_one_capability_and_can_get_no_other(
        self, shared: EmbeddedServer
    ) -> None:
        lines = Path(f"/proc/{shared.status().pid}/status").read_text().splitlines()
        found = dict(line.split(":\t", 1) for line in lines)
        assert int(found["CapEff"], 16) == int(found["CapPrm"], 16) == 1 << 2
        assert found["NoNewPrivs"] == "1"

    def test_tells_its_status(self, shared: EmbeddedServer) -> None:
        status = shared.status()
        assert status.running
        assert status.version == value(shared, "SHOW server_version")
        assert status.log.is_file()
        assert status.socket_dir.is_dir()
        assert 30_000_000 < status.bytes_on_disk < 200_000_000

    def test_keeps_memories_out_of_its_log(self, shared: EmbeddedServer) -> None:
        execute(shared, "CREATE TABLE IF NOT EXISTS said (what text PRIMARY KEY)")
        insert = "INSERT INTO said VALUES ('my-private-words')"
        with pytest.raises(psycopg.errors.UniqueViolation):
            execute(shared, insert, insert)
        logged = shared.status().log.read_text()
        assert "duplicate key" in logged
        assert "my-private-words" not in logged


def test_status_before_the_first_start_creates_nothing(home: Path) -> None:
    status = server_of(home).status()
    assert (status.running, status.pid, status.bytes_on_disk) == (False, None, 0)
    assert list(home.iterdir()) == []


def test_settings_of_the_operator_win_and_survive_a_restart(
    running: EmbeddedServer,
) -> None:
    conf = running.status().data_dir / "postgresql.conf"
    with conf.open("a") as file:
        file.write("work_mem = 7MB\nmax_connections = 42\n")
    for _ in range(2):
        running.stop()
        running.ensure_running()
        assert value(running, "SHOW work_mem") == "7MB"
        assert value(running, "SHOW max_connections") == "42"
