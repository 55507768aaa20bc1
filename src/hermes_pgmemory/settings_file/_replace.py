"""Replace a small file atomically, as the operator's file it stays."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator
from pathlib import Path

from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.locking import alone
from hermes_pgmemory.part_files import part_of


@contextlib.contextmanager
def locked(lock_file: Path) -> Generator[None]:
    """Hold *lock_file* exclusively among processes and threads; waits for it.

    Raises:
        ConfigError: The lock's folder cannot be made.
    """
    with contextlib.ExitStack() as held:
        try:
            lock_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.enter_context(alone(lock_file))
        except OSError as exc:
            problem = f"cannot be written: {exc.strerror}"
            raise ConfigError({str(lock_file.parent): problem}) from None
        yield


def replace_text(path: Path, text: str) -> None:
    """Make *text* the content of *path*; a reader sees the old or the new one.

    Mode and owner stay; a symlink is followed. A file that is a mount point of its
    own cannot be renamed over: it is written in place.

    Raises:
        ConfigError: It cannot be written.
    """
    real = path.resolve()
    raw = text.encode("utf-8")
    try:
        if real.exists() and not os.access(real, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        _replace(real, raw)
    except OSError as exc:
        problem = f"cannot be written: {exc.strerror}"
        raise ConfigError({str(path): problem}) from None


def _replace(real: Path, raw: bytes) -> None:
    with part_of(real) as fresh:
        with fresh.open("wb") as out:
            out.write(raw)
            _keep_mode_and_owner(real, out.fileno())
            out.flush()
            os.fsync(out.fileno())
        try:
            fresh.replace(real)
        except OSError as exc:
            if exc.errno not in (errno.EBUSY, errno.EXDEV):
                raise
            _write_in_place(real, raw)
    _sync_folder(real.parent)


def _keep_mode_and_owner(real: Path, fd: int) -> None:
    try:
        old = real.stat()
    except FileNotFoundError:
        return
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        # Only root may give a file away; anyone else keeps what they can.
        with contextlib.suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, old.st_mode & 0o7777)


def _write_in_place(real: Path, raw: bytes) -> None:
    with real.open("r+b") as out:
        out.write(raw)
        out.truncate()
        out.flush()
        os.fsync(out.fileno())


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
