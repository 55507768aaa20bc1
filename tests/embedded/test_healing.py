"""What a crash leaves behind, the next `ensure_running` clears away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest
from embedded_kit import (
    START,
    WAIT_S,
    become,
    eventually,
    execute,
    postmasters_in,
    processes_in,
    server_account,
    server_of,
    value,
)

from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.paths import HomePaths

WRITE = ("CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (42)")
READ = "SELECT sum(n) FROM kept"


class TestCrash:
    def test_of_the_postmaster_costs_no_data(self, running: EmbeddedServer) -> None:
        execute(running, *WRITE)
        pid = running.status().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not running.status().running)
        running.ensure_running()
        assert value(running, READ) == 42
        assert running.status().pid != pid

    def test_of_everything_at_once_costs_no_data(
        self, running: EmbeddedServer, used_home: Path
    ) -> None:
        execute(running, *WRITE)
        for process in processes_in(used_home):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        eventually(lambda: not running.status().running)
        running.ensure_running()
        assert value(running, READ) == 42

    def test_waits_for_a_backend_that_is_still_busy(
        self, running: EmbeddedServer, used_home: Path
    ) -> None:
        execute(running, *WRITE)
        busy = threading.Thread(target=_compute, args=(running.dsn,))
        busy.start()
        seen = "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%_series%'"
        eventually(lambda: bool(value(running, seen + " AND pid <> pg_backend_pid()")))
        pid = running.status().pid
        assert pid is not None
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not running.status().running)
        running.ensure_running()
        busy.join()
        assert time.monotonic() - began > 0.5, "the backend was not busy at all"
        assert value(running, READ) == 42
        assert len(postmasters_in(used_home)) == 1


def _compute(dsn: str) -> None:
    """Keep a backend from noticing the death of its server for a second."""
    with psycopg.connect(dsn, autocommit=True) as conn, suppress(psycopg.Error):
        conn.execute("SET statement_timeout = '1500ms'")
        conn.execute("SELECT count(*) FROM generate_series(1, 2000000000)")


class TestShutdown:
    def test_is_waited_for_and_then_undone(self, running: EmbeddedServer) -> None:
        pid = running.status().pid
        assert pid is not None
        with psycopg.connect(running.dsn):
            # Waits for the connection to end, and takes no other meanwhile.
            os.kill(pid, signal.SIGTERM)
            eventually(lambda: not running.status().running)
            waiting = threading.Thread(target=running.ensure_running)
            waiting.start()
        waiting.join()
        assert value(running, "SELECT 1") == 1
        assert running.status().pid != pid


class TestStaleFiles:
    @pytest.fixture
    def bystander(self) -> Iterator[int]:
        """A process that is no server, of the account that PostgreSQL looks for."""
        prefix = become(server_account()) if os.geteuid() == 0 else []
        with subprocess.Popen([*prefix, "sleep", "300"]) as process:
            yield process.pid
            process.kill()

    @pytest.fixture
    def crashed(self, running: EmbeddedServer) -> EmbeddedServer:
        """A server that was killed, and left its files."""
        pid = running.status().pid
        assert pid is not None
        home = running.status().data_dir.parents[2]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not processes_in(home))
        assert (running.status().data_dir / "postmaster.pid").exists()
        return running

    @pytest.mark.parametrize("whose", ["bystander", "own"])
    def test_pid_file_that_names_an_unrelated_process(
        self, crashed: EmbeddedServer, bystander: int, whose: str
    ) -> None:
        pid = bystander if whose == "bystander" else os.getpid()
        _renumber(crashed.status().data_dir / "postmaster.pid", pid)
        crashed.ensure_running()
        assert value(crashed, "SELECT 1") == 1
        assert psutil.pid_exists(bystander)

    def test_pid_file_that_was_never_written_out(self, crashed: EmbeddedServer) -> None:
        os.truncate(crashed.status().data_dir / "postmaster.pid", 0)
        crashed.ensure_running()
        assert value(crashed, "SELECT 1") == 1

    def test_socket_and_its_lock_that_names_an_unrelated_process(
        self, crashed: EmbeddedServer, bystander: int
    ) -> None:
        _renumber(crashed.status().socket_dir / ".s.PGSQL.5432.lock", bystander)
        (crashed.status().data_dir / "postmaster.pid").unlink()
        crashed.ensure_running()
        assert value(crashed, "SELECT 1") == 1

    def test_of_a_crash_do_not_pass_for_a_running_server(
        self, crashed: EmbeddedServer
    ) -> None:
        assert not crashed.status().running
        assert not crashed.stop()


def _renumber(file: Path, pid: int) -> None:
    """Make *file*, which begins with a process id, name another process."""
    _, _, rest = file.read_text().partition("\n")
    file.write_text(f"{pid}\n{rest}")


class TestInterruptedFirstStart:
    @pytest.mark.parametrize("killed", ["the starter", "everything"])
    def test_leaves_nothing_that_the_next_one_stumbles_over(
        self, home: Path, killed: str
    ) -> None:
        folder = HomePaths(home).server
        with subprocess.Popen([sys.executable, "-c", START, str(folder)]) as process:
            eventually((folder / "data.new" / "base").exists)
            process.kill()
            if killed == "everything":
                for child in processes_in(home):
                    with suppress(psutil.NoSuchProcess):
                        child.kill()
            process.wait(WAIT_S)
        assert not (folder / "data").exists()
        server = server_of(home)
        server.ensure_running()
        assert value(server, "SELECT 1") == 1
        assert not (folder / "data.new").exists()
