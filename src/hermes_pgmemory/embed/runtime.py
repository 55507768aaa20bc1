"""Where the local model's server and its clients meet, and who may enter.

Shared by both sides, so it imports next to nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes_pgmemory.embedding_models import LOCAL_MODEL
from hermes_pgmemory.errors import EmbedderUnavailable
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE, runtime_dir

PROTOCOL: Final = 1
"""Raise it when client and server no longer understand each other, or when equal
texts no longer give equal vectors: another number is another socket."""

LOCK_HELD: Final = os.EX_TEMPFAIL
"""Exit code of a server that found another one running."""

_OWNER_CHARS: Final = 100
"""More than the note of an owner takes."""

_LONGEST_SOCKET_PATH: Final = 103
"""Bytes; the smaller of Linux's and macOS's limits, less the terminating zero."""


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files of one server, beside each other."""

    socket: Path

    @property
    def lock(self) -> Path:
        """Locked for the server's life; says who holds it."""
        return self.socket.with_suffix(".lock")

    @property
    def log(self) -> Path:
        """What the latest server had to complain about."""
        return self.socket.with_suffix(".log")


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that holds the lock."""

    pid: int
    started_at: float
    """Seconds since the epoch."""


def server_files(hub_model: str = "") -> ServerFiles:
    """Return the files of this user's server for a model and our protocol.

    Args:
        hub_model: As configured, `fastembed:` included; "" is the model we ship.
    """
    name = LOCAL_MODEL
    if hub_model:
        # A socket's path must be short, and a model's name may be anything.
        name = f"hub-{hashlib.sha256(hub_model.encode()).hexdigest()[:12]}"
    return ServerFiles(runtime_dir() / f"{name}-p{PROTOCOL}.sock")


def secure(files: ServerFiles) -> None:
    """Make sure that the folder is there and only ours.

    Texts travel through the socket in it: a folder that someone else made, or may
    write to, could hold someone else's socket.

    Raises:
        EmbedderUnavailable: It cannot be made, or is not ours alone.
    """
    folder = files.socket.parent
    if len(os.fsencode(files.socket)) > _LONGEST_SOCKET_PATH:
        raise _insecure(folder, "its path is too long for a socket")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(folder)
        if stat.S_IMODE(folder.lstat().st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError as exc:
        raise _insecure(folder, exc.strerror or type(exc).__name__) from exc


def check_private(folder: Path) -> None:
    """Refuse a folder in which others can have put something; makes none.

    Raises:
        EmbedderUnavailable: *folder* is there, and not ours alone.
    """
    try:
        info = folder.lstat()
    except FileNotFoundError:
        return
    except OSError as exc:
        raise _insecure(folder, exc.strerror or type(exc).__name__) from exc
    if not stat.S_ISDIR(info.st_mode):
        raise _insecure(folder, "it is not a folder")
    if info.st_uid != os.getuid():
        raise _insecure(folder, "it belongs to another user")
    if info.st_mode & 0o022:
        raise _insecure(folder, "other users may write to it")


def _insecure(folder: Path, why: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(
        f"the local model cannot use {folder}: {why}; remove it, or set "
        f"{RUNTIME_DIR_VARIABLE} to a short path of your own"
    )


def open_private(path: Path, flags: int) -> int:
    """Open *path* for us alone, never through a link; return the descriptor."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def take_lock(lock: Path) -> int | None:
    """Lock *lock* until the descriptor that is returned closes, or return None."""
    descriptor = open_private(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(lock: Path) -> bool:
    """Tell whether a server of ours holds *lock*; a lock of others is none."""
    descriptor = _open_own(lock)
    if descriptor is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _open_own(lock: Path) -> int | None:
    """Open *lock* for reading; None if it is not there, or not a file of ours."""
    # Not blocking: what lies there may be a pipe that nobody writes to.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(lock, flags)
    except OSError:
        return None
    info = os.fstat(descriptor)
    if stat.S_ISREG(info.st_mode) and info.st_uid == os.getuid():
        return descriptor
    os.close(descriptor)
    return None


def write_owner(descriptor: int, owner: Owner) -> None:
    """Note in the locked file who holds it."""
    text = f"{owner.pid} {owner.started_at:.3f}\n".encode()
    os.pwrite(descriptor, text, 0)
    os.ftruncate(descriptor, len(text))


def read_owner(lock: Path) -> Owner | None:
    """Return who holds or last held *lock*, if it is ours and says."""
    descriptor = _open_own(lock)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        try:
            pid, started_at = file.read(_OWNER_CHARS).split()
            return Owner(int(pid), float(started_at))
        except ValueError:
            return None


def is_alive(owner: Owner | None) -> bool:
    """Tell whether *owner*'s process is there."""
    if owner is None:
        return False
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
