"""Who runs the server, and who may connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from embedded_kit import (
    CONNECT,
    START,
    as_root,
    become,
    other_account,
    python_as,
    run_python,
    server_account,
    server_of,
    value,
)

from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.embedded.binaries import find_binaries
from hermes_pgmemory.paths import HomePaths

pytestmark = as_root

DOCKER = (
    "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,"
    "net_raw,sys_chroot,mknod,audit_write,setfcap"
)
"""What root may do in a container that was started without options."""

REPORT = """
import json
print(json.dumps({"pid": server.status().pid, "dsn": server.dsn}))
"""


def psql_as_other(server: EmbeddedServer, capability: str) -> str:
    """Return what psql says when somebody else tries to connect."""
    command = [str(find_binaries() / "psql"), "-X", "-c", "SELECT 1", server.dsn]
    prefix = become(other_account(), capability)
    done = subprocess.run(
        [*prefix, *command], check=False, capture_output=True, text=True, cwd="/"
    )
    assert done.returncode != 0
    return done.stderr


class TestStranger:
    def test_does_not_reach_the_socket(self, running: EmbeddedServer) -> None:
        # Reading psql may need the capability; it opens no socket.
        assert "Permission denied" in psql_as_other(running, "dac_read_search")

    def test_is_refused_even_at_the_socket(self, running: EmbeddedServer) -> None:
        said = psql_as_other(running, "dac_override")
        assert 'Peer authentication failed for user "hermes"' in said

    def test_may_not_be_the_servers_own_account_either(
        self, running: EmbeddedServer
    ) -> None:
        command = [str(find_binaries() / "psql"), "-X", "-c", "SELECT 1", running.dsn]
        prefix = become(server_account(), "dac_read_search")
        done = subprocess.run(
            [*prefix, *command], check=False, capture_output=True, text=True
        )
        assert "Peer authentication failed" in done.stderr


class TestUser:
    @pytest.fixture
    def users_home(self, home: Path) -> Path:
        account = other_account()
        os.chown(home, account.pw_uid, account.pw_gid)
        return home

    def test_runs_a_server_without_any_privilege(self, users_home: Path) -> None:
        account = other_account()
        script = START + CONNECT + REPORT
        done = run_python(script, users_home, python=python_as(account))
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert set(psutil.Process(report["pid"]).uids()) == {account.pw_uid}
        assert _owners(HomePaths(users_home).server) == {account.pw_uid}
        stop = START + "print(server.stop(), server.status().running)"
        done = run_python(stop, users_home, python=python_as(account))
        assert done.stdout == "True False\n", done.stderr

    def test_shares_the_server_that_root_started_in_their_home(
        self, users_home: Path
    ) -> None:
        account = other_account()
        server = server_of(users_home)
        server.ensure_running()
        assert value(server, "SELECT 1") == 1
        pid = server.status().pid
        assert set(psutil.Process(pid).uids()) == {account.pw_uid}
        assert _owners(HomePaths(users_home).server) == {account.pw_uid}
        script = START + CONNECT + REPORT
        done = run_python(script, users_home, python=python_as(account))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["pid"] == pid

    def test_shares_their_server_with_root(self, users_home: Path) -> None:
        done = run_python(START, users_home, python=python_as(other_account()))
        assert done.returncode == 0, done.stderr
        server_of(users_home).ensure_running()
        assert value(server_of(users_home), "SELECT 1") == 1


def _owners(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in [folder, *folder.rglob("*")]}


class TestContainer:
    def test_with_the_usual_capabilities_reaches_a_private_home(
        self, home: Path
    ) -> None:
        root = [
            "setpriv",
            f"--bounding-set=-all,+{DOCKER.replace(',', ',+')}",
            sys.executable,
        ]
        done = run_python(START + CONNECT + REPORT, home, python=root)
        assert done.returncode == 0, done.stderr
        pid = json.loads(done.stdout)["pid"]
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found = dict(line.split(":\t", 1) for line in lines)
        assert int(found["CapEff"], 16) == 1 << 1

    def test_that_may_not_change_owners_is_told_what_to_do(self, home: Path) -> None:
        root = ["setpriv", "--bounding-set=-chown", sys.executable]
        done = run_python(START, home, python=root)
        assert "run the agent as a user other than root" in done.stderr
        assert not HomePaths(home).server.joinpath("data").exists()

    def test_whose_home_belongs_to_a_user_it_does_not_know(self, home: Path) -> None:
        os.chown(home, 54321, 54321)
        server = server_of(home)
        server.ensure_running()
        uids = psutil.Process(server.status().pid).uids()
        assert set(uids) == {server_account().pw_uid}
        assert value(server, "SELECT 1") == 1


def test_a_server_keeps_its_account_when_a_better_one_appears(
    embedded: EmbeddedServer,
) -> None:
    folder = embedded.status().data_dir.parent
    account = other_account()
    for name in ("data", "run", "log"):
        for path in [folder / name, *(folder / name).rglob("*")]:
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
    embedded.ensure_running()
    uids = psutil.Process(embedded.status().pid).uids()
    assert set(uids) == {account.pw_uid}
    assert value(embedded, "SELECT 1") == 1
