"""Which local model servers of this user run, and how they are ended.

A lock file says which process serves. It is believed only where nobody else can have
written it, and a process is told to end only if it is such a server: a note that
another user left, or a process id that means something else here, ends nobody.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes_pgmemory.embed.runtime import (
    ServerFiles,
    check_private,
    is_locked,
    read_owner,
    server_files,
)
from hermes_pgmemory.errors import EmbedderUnavailable
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE, runtime_dir

SERVER_MODULE: Final = "hermes_pgmemory.embed.local_server"
"""What a server is started as; its command line tells it from other processes."""

_PROC: Final = Path("/proc")
_POLL_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalServerStatus:
    """A running local server."""

    pid: int
    uptime_s: float
    rss_bytes: int | None
    """Resident memory; None where the system does not tell."""
    socket: Path


def local_server_status() -> LocalServerStatus | None:
    """Return this user's running server of the model that we ship, or None.

    Raises:
        EmbedderUnavailable: The folder for sockets is not ours alone.
    """
    files = server_files()
    check_private(files.socket.parent)
    return _status(files)


def local_servers() -> list[LocalServerStatus]:
    """Return all running servers of this user, whatever their model and release.

    Raises:
        EmbedderUnavailable: The folder for sockets is not ours alone.
    """
    found = [_status(files) for files in _all_files()]
    return [status for status in found if status is not None]


def stop_local_server(*, timeout_s: float = 5.0) -> bool:
    """End every local server of this user, by force where it does not leave in time.

    Args:
        timeout_s: Seconds each of them may take, and as many to end it by force.

    Returns:
        Whether there was one. The next text to embed starts another.

    Raises:
        EmbedderUnavailable: The folder for sockets is not ours alone, or a server does
            not end or cannot be told from other processes.
    """
    running = [files for files in _all_files() if is_locked(files.lock)]
    for files in running:
        _stop(files, timeout_s)
    return bool(running)


def _all_files() -> Iterator[ServerFiles]:
    folder = runtime_dir()
    check_private(folder)
    for lock in sorted(folder.glob("*.lock")):
        yield ServerFiles(lock.with_suffix(".sock"))


def _status(files: ServerFiles) -> LocalServerStatus | None:
    owner = read_owner(files.lock)
    if owner is None or not is_locked(files.lock):
        return None
    return LocalServerStatus(
        pid=owner.pid,
        uptime_s=max(0.0, time.time() - owner.started_at),
        rss_bytes=_rss_bytes(owner.pid),
        socket=files.socket,
    )


def _rss_bytes(pid: int) -> int | None:
    try:
        pages = (_PROC / str(pid) / "statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None


def _stop(files: ServerFiles, timeout_s: float) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        pid = _tell(files, number, deadline=time.monotonic() + timeout_s)
        if not is_locked(files.lock):
            return
        if pid is None:
            why = "is not among the processes here: end it where it runs"
            break
        why = f"does not end (process {pid})"
    raise EmbedderUnavailable(
        f"the local model's server of {files.lock} {why}; "
        f"{RUNTIME_DIR_VARIABLE} can point to another folder meanwhile"
    )


def _tell(files: ServerFiles, number: signal.Signals, *, deadline: float) -> int | None:
    """Send a signal to the server, and wait until it is gone or the time is up.

    Returns:
        Its process; None where there was none that is a server of ours.
    """
    told: int | None = None
    while is_locked(files.lock) and time.monotonic() < deadline:
        # Looked for again and again: one that starts is noted a moment later.
        if told is None and (pid := _serving_process(files)) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            told = pid
        time.sleep(_POLL_S)
    return told


def _serving_process(files: ServerFiles) -> int | None:
    """Return the lock's owner, if that process is a server of ours on this socket."""
    owner = read_owner(files.lock)
    if owner is None or owner.pid <= 1:
        return None
    if not (_PROC / "self").exists():
        # No system to ask, as on macOS; the lock is ours, and it is held.
        return owner.pid
    entry = _PROC / str(owner.pid)
    try:
        uid, command = entry.stat().st_uid, (entry / "cmdline").read_bytes()
    except OSError:
        return None
    ours = uid == os.getuid() and _serves(command, files.socket)
    return owner.pid if ours else None


def _serves(command: bytes, socket: Path) -> bool:
    """Tell whether *command*, as the system notes it, is a server's on *socket*."""
    words = [os.fsdecode(word) for word in command.split(b"\0")]
    served = {
        os.path.realpath(word.removeprefix("--socket="))
        for word in words
        if word.startswith("--socket=")
    }
    return SERVER_MODULE in words and served == {os.path.realpath(socket)}
