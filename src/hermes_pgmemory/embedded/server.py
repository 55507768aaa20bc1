"""Start, find and stop the one PostgreSQL of a HERMES_HOME."""

from __future__ import annotations

import logging
import math
import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from hermes_pgmemory.embedded import binaries, cluster, probe
from hermes_pgmemory.embedded.accounts import Account, Accounts, accounts_for
from hermes_pgmemory.embedded.layout import Layout, give, make_alias, make_folders
from hermes_pgmemory.embedded.locking import try_lock
from hermes_pgmemory.errors import DatabaseUnavailable

PAUSE_MAX_S: Final = 0.1
"""Longest pause between two looks at what another process is doing."""

LOGGED_S: Final = 0.5
"""Longest wait for the reason of a failure to reach the log."""

BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`."""

SHELL_SPECIAL: Final = frozenset('"$`\\')
"""pg_ctl puts paths between double quotes on a shell's command line."""

log = logging.getLogger("hermes_pgmemory")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """What an operator wants to know about the embedded server."""

    running: bool
    """It takes connections now."""
    pid: int | None
    """None also while it is too busy to tell, or in another container."""
    version: str | None
    """Of the installed programs, such as "18.6"; None where none run."""
    data_dir: Path
    socket_dir: Path
    log: Path
    """The file written last; the folder of logs while there is none."""
    bytes_on_disk: int


class EmbeddedServer:
    """The PostgreSQL of one HERMES_HOME, shared by all of its processes.

    Objects are cheap and hold no resource: any number of them, in any process and
    thread, mean the same server. It outlives the process that started it.
    """

    def __init__(self, folder: Path) -> None:
        """Name the server in *folder*, which is two levels below HERMES_HOME."""
        self._folder = folder.absolute()

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self._folder)

    @property
    def dsn(self) -> str:
        """Connection string; the same before, during and after the server runs.

        It names the account that runs the server, and no other one is talked to.
        """
        try:
            peer = self._accounts().server.name
        except DatabaseUnavailable:
            # Starting it will say why; there is nothing to connect to.
            peer = ""
        return self._layout.dsn(peer)

    def ensure_running(self, *, timeout_s: float = 60) -> None:
        """Return when the server takes connections; start, build or mend it first.

        Cheap while it runs, and safe to call from any number of processes.

        Raises:
            DatabaseUnavailable: It does not run and could not be started within
                *timeout_s* seconds; one line, for an operator to act on.
        """
        if probe.ready(self._layout) is not None:
            return
        deadline = time.monotonic() + timeout_s
        try:
            self._start(deadline)
        except OSError as exc:
            raise DatabaseUnavailable(self._explain(exc)) from exc

    def stop(self, *, timeout_s: float = 30) -> bool:
        """Shut the server down fast, breaking its connections.

        Returns when every process of it has ended; False if it was not running.

        Raises:
            DatabaseUnavailable: It may not be stopped from here, or did not end
                within *timeout_s* seconds.
        """
        try:
            return self._stop(time.monotonic() + timeout_s)
        except OSError as exc:
            raise DatabaseUnavailable(self._explain(exc)) from exc

    def status(self) -> ServerStatus:
        """Look, without starting or waiting for anything."""
        layout = self._layout
        pid = probe.ready(layout)
        logs = {path: found.st_mtime for path, found in _files(layout.log)}
        blocks = sum(found.st_blocks for _, found in _files(layout.data))
        try:
            version = binaries.version(binaries.find_binaries())
        except DatabaseUnavailable:
            version = None
        return ServerStatus(
            running=pid is not None,
            pid=pid if pid is not None and pid > 0 else None,
            version=version,
            data_dir=layout.data,
            socket_dir=layout.socket_dir,
            log=max(logs, key=logs.__getitem__, default=layout.log),
            bytes_on_disk=blocks * BLOCK_BYTES,
        )

    def _accounts(self) -> Accounts:
        layout = self._layout
        return accounts_for(self._folder.parent.parent, layout.folder, layout.data)

    def _start(self, deadline: float) -> None:
        layout = self._layout
        accounts = self._accounts()
        make_folders(layout.folder, accounts.agent)
        make_alias(layout)
        for _ in _looks(deadline):
            with try_lock(layout.lock) as lock:
                if lock is not None:
                    self._start_locked(accounts, lock, deadline)
                    return
            if probe.ready(layout) is not None:
                return
        raise DatabaseUnavailable(
            f"the PostgreSQL in {layout.folder} is being started or stopped by another "
            "process, or runs on another host, and was not ready in time; its log is "
            f"in {layout.log}"
        )

    def _start_locked(self, accounts: Accounts, lock: int, deadline: float) -> None:
        layout = self._layout
        if probe.ready(layout) is not None:
            return
        programs = binaries.find_binaries()
        if not layout.data.exists():
            for path in (layout.folder, layout.lock):
                give(path, accounts.agent)
            cluster.check_owner(layout.folder, accounts.agent)
            cluster.build(layout, programs, accounts, lock=lock, deadline=deadline)
        cluster.check_owner(layout.data, accounts.server)
        cluster.check_version(layout, programs)
        cluster.mend(layout)
        cluster.configure(layout, accounts)
        self._launch(programs, accounts.server, lock, deadline)
        log.info("started the embedded PostgreSQL in %s", layout.folder)

    def _launch(
        self, programs: Path, account: Account, lock: int, deadline: float
    ) -> None:
        layout = self._layout
        before = {path: found.st_size for path, found in _files(layout.log)}
        patience_s = max(1, math.ceil(deadline - time.monotonic()))
        command: list[str | Path] = [programs / "pg_ctl", "start", "--silent", "--wait"]
        command += [f"--timeout={patience_s}", "--log=../log/start.log"]
        # An option shows the folder in ps, the environment takes any spelling of it.
        if not SHELL_SPECIAL & set(str(layout.data)):
            command += ["--pgdata", layout.data]
        done = binaries.run(
            command,
            account=account,
            lock=lock,
            deadline=deadline + 5,  # pg_ctl keeps the time by itself
            folder=layout.data,
            extra={"PGDATA": str(layout.data)},
        )
        if done.returncode == 0 and probe.ready(layout) is not None:
            return
        reason = (
            f"no answer at {layout.socket}"
            if done.returncode == 0
            else self._last_words(before) or binaries.complaint(done.stderr)
        )
        raise DatabaseUnavailable(
            f"the PostgreSQL in {layout.folder} did not start: {reason}; its log is in "
            f"{layout.log}"
        )

    def _last_words(self, before: dict[Path, int]) -> str:
        """Return the reason the server logged since its logs had those sizes."""
        # The process that writes the log may outlive the one that failed.
        for _ in _looks(time.monotonic() + LOGGED_S):
            for path, found in _files(self._layout.log):
                if not stat.S_ISREG(found.st_mode):
                    continue
                with path.open("rb") as file:
                    file.seek(before.get(path, 0))
                    text = file.read().decode("utf-8", "replace")
                if "FATAL:" in text or "PANIC:" in text:
                    return binaries.complaint(text)
        return ""

    def _stop(self, deadline: float) -> bool:
        layout = self._layout
        if not layout.lock.exists():
            return False
        asked = False
        for _ in _looks(deadline):
            pid = probe.listener(layout)
            if pid == probe.ELSEWHERE:
                raise DatabaseUnavailable(
                    f"the PostgreSQL in {layout.folder} runs in another container: "
                    "stop it there"
                )
            if pid is None:
                with try_lock(layout.lock) as lock:
                    if lock is not None:
                        return asked
            elif pid != probe.BUSY and not asked:
                os.kill(pid, signal.SIGINT)
                asked = True
        raise DatabaseUnavailable(
            f"the PostgreSQL in {layout.folder} did not stop in time; its log is in "
            f"{layout.log}"
        )

    def _explain(self, exc: OSError) -> str:
        """Say which file of ours is in the way, and whose it is."""
        path = Path(os.fsdecode(exc.filename or self._layout.folder))
        reason = f"cannot use {path}: {exc.strerror or exc}"
        while not os.access(path, os.F_OK) and path != path.parent:
            path = path.parent
        owner = path.stat().st_uid
        whose = f" ({path} belongs to user id {owner})" if owner != os.geteuid() else ""
        return (
            f"{reason}{whose}: let the embedded PostgreSQL use it, or set "
            "plugins.pgvector.dsn"
        )


def _looks(deadline: float) -> Iterator[None]:
    """Yield at once, then after ever longer pauses, until the *deadline*."""
    pause = 0.005
    while True:
        yield
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(pause * 2, PAUSE_MAX_S)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files below *folder*, leaving out what vanishes meanwhile."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            with suppress(FileNotFoundError):
                yield path, path.lstat()
