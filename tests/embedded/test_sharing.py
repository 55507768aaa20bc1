"""One server for all processes of a home, whoever of them started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from embedded_kit import (
    START,
    WAIT_S,
    postmasters_in,
    run_python,
    server_of,
    value,
)

from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.paths import HomePaths

LINGER = "print('ready', flush=True); sys.stdin.read()"
"""Say that the server runs, and wait to be ended."""

SELECT = """
import psycopg
psycopg.connect(server.dsn).close()
"""

FORK = """
import os, sys
from pathlib import Path
from hermes_pgmemory.embedded.locking import try_lock
lock = Path(sys.argv[1])
read, write = os.pipe()
born, report = os.pipe()
with try_lock(lock) as held:
    assert held is not None
    child = os.fork()
    if child == 0:
        os.close(write)
        os.write(report, b"!")
        os.read(read, 1)  # lives until the parent ends
        os._exit(0)
    os.read(born, 1)
with try_lock(lock) as held:
    print(held is not None)
"""


@contextmanager
def starter(home: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that started the server of *home* and is still there."""
    with subprocess.Popen(
        [sys.executable, "-c", START + LINGER, str(HomePaths(home).server)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


class TestRace:
    def test_of_eight_processes_starts_one_server(self, home: Path) -> None:
        command = [sys.executable, "-c", START + SELECT, str(HomePaths(home).server)]
        racers = [subprocess.Popen(command) for _ in range(8)]
        assert [racer.wait(WAIT_S * 2) for racer in racers] == [0] * 8
        assert len(postmasters_in(home)) == 1
        logged = server_of(home).status().log.read_text()
        assert logged.count("ready to accept connections") == 1

    def test_of_eight_threads_starts_one_server(
        self, used_home: Path, embedded: EmbeddedServer
    ) -> None:
        threads = [threading.Thread(target=embedded.ensure_running) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(postmasters_in(used_home)) == 1
        assert value(embedded, "SELECT 1") == 1


class TestStarter:
    @pytest.mark.parametrize(
        "number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGKILL]
    )
    def test_is_outlived_by_the_server_when_its_group_is_signalled(
        self, used_home: Path, number: signal.Signals
    ) -> None:
        with starter(used_home) as process:
            pid = server_of(used_home).status().pid
            os.killpg(process.pid, number)
            process.wait(WAIT_S)
        assert value(server_of(used_home), "SELECT 1") == 1
        assert server_of(used_home).status().pid == pid

    def test_leaves_no_pipe_of_its_own_open_in_the_server(
        self, used_home: Path
    ) -> None:
        # Returns only when nobody has the writing ends any more.
        assert run_python(START, used_home).returncode == 0
        assert server_of(used_home).status().running

    def test_forking_meanwhile_does_not_pass_for_the_server(self, home: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-c", FORK, str(home / "lock")],
            check=False,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        assert done.stdout == "True\n", done.stderr


class TestStop:
    def test_ends_every_process_before_it_returns(
        self, running: EmbeddedServer, used_home: Path
    ) -> None:
        assert running.stop()
        assert postmasters_in(used_home) == []
        assert not running.status().running

    def test_tells_when_there_was_nothing_to_stop(
        self, embedded: EmbeddedServer, home: Path
    ) -> None:
        assert not embedded.stop()
        assert not server_of(home / "never-used").stop()

    def test_works_from_another_process(self, running: EmbeddedServer) -> None:
        script = START + "print(server.stop())"
        home = running.status().data_dir.parents[2]
        assert run_python(script, home).stdout == "True\n"
        assert not running.status().running

    def test_breaks_connections_instead_of_waiting_for_them(
        self, running: EmbeddedServer
    ) -> None:
        home = running.status().data_dir.parents[2]
        hold = "conn = psycopg.connect(server.dsn)\n"
        with subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"{START}\nimport psycopg\n{hold}{LINGER}",
                str(HomePaths(home).server),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "ready\n"
            assert running.stop()
            client.kill()

    def test_is_followed_by_a_start_that_keeps_the_data(
        self, running: EmbeddedServer
    ) -> None:
        oid = value(running, "SELECT oid FROM pg_database WHERE datname = 'postgres'")
        system = "SELECT system_identifier::text FROM pg_control_system()"
        identity = value(running, system)
        running.stop()
        running.ensure_running()
        assert value(running, system) == identity
        assert oid
