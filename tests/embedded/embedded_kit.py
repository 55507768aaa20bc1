"""What the tests of the embedded server share beside fixtures."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.paths import HomePaths

WAIT_S = 30.0
"""Seconds after which something that should happen does not."""

START = """
import sys
from pathlib import Path
from hermes_pgmemory.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
server.ensure_running()
"""
"""A program that starts the server in the folder it is given, and ends."""

CONNECT = """
import psycopg
with psycopg.connect(server.dsn) as conn:
    conn.execute("CREATE EXTENSION IF NOT EXISTS vector")
    conn.execute("SELECT '[1,2]'::halfvec <=> '[2,1]'")
"""

MakeHome = Callable[[], AbstractContextManager[Path]]

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes accounts")


def server_of(home: Path) -> EmbeddedServer:
    return EmbeddedServer(HomePaths(home).server)


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until *condition* holds; fail if it never does."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "this never came true"
        time.sleep(0.01)


def processes_in(home: Path) -> list[psutil.Process]:
    """Return the processes that work in *home*: servers, their children, initdb."""
    return [process for process in psutil.process_iter() if _works_in(process, home)]


def _works_in(process: psutil.Process, home: Path) -> bool:
    try:
        return Path(process.cwd()).is_relative_to(home)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def postmasters_in(home: Path) -> list[psutil.Process]:
    """Return the servers among the processes of *home*, without their children."""
    parents = {}
    for process in processes_in(home):
        with suppress(psutil.NoSuchProcess):
            parents[process] = process.ppid()
    pids = {process.pid for process in parents}
    return [process for process, parent in parents.items() if parent not in pids]


def value(server: EmbeddedServer, query: str) -> object:
    """Return the single value that *query* finds."""
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def execute(server: EmbeddedServer, *statements: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement.encode())


def server_account() -> pwd.struct_passwd:
    """Return the account that runs the server of a root-owned home, or our own."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def other_account() -> pwd.struct_passwd:
    """Return an unprivileged account that is not the server's."""
    return pwd.getpwnam("daemon" if server_account().pw_name == "nobody" else "nobody")


def become(account: pwd.struct_passwd, capability: str = "") -> list[str]:
    """Return a command prefix that leaves root for *account*."""
    prefix = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}"]
    prefix.append("--clear-groups")
    if capability:
        prefix += [f"--inh-caps=+{capability}", f"--ambient-caps=+{capability}"]
    return prefix


def python_as(account: pwd.struct_passwd) -> list[str]:
    """Return a command prefix that runs our Python as *account*.

    Where the interpreter lies below a 0700 directory (/root), the account gets the
    capability to read it. It is no substitute for a right that a test is about:
    with it nobody can write, or connect to a socket, that belongs to another.
    """
    probe = [*become(account), "test", "-r", os.__file__]
    within_reach = subprocess.run(probe, check=False).returncode == 0
    capability = "" if within_reach else "dac_read_search"
    return [*become(account, capability), sys.executable]


def run_python(
    code: str, home: Path, *, python: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run *code* in a process of its own; its argument is the server's folder."""
    command = [*(python or [sys.executable]), "-c", code, str(HomePaths(home).server)]
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=WAIT_S * 2,
        cwd="/",
    )


def snapshot(folder: Path) -> dict[Path, tuple[int, ...]]:
    """Return what would show that anything below *folder* was touched."""
    seen = {}
    for path in [folder, *folder.rglob("*")]:
        found = path.lstat()
        seen[path] = (found.st_ino, found.st_mode, found.st_uid, found.st_mtime_ns)
    return seen
