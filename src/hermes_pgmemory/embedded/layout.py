"""What lies where in the server's folder, and how a client reaches it.

    postgres/            0700, the agent's
    ├── lock             held by whoever works here: a starter, then the server
    ├── server.conf      our settings, rewritten at every start
    ├── data/            0700, the server's: the database cluster
    ├── run/             0700, the server's: the socket
    └── log/             0700, the server's

What the agent writes never lies where the server's account could plant a link.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes_pgmemory.embedded.accounts import Account
from hermes_pgmemory.errors import DatabaseUnavailable
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE, runtime_dir

DATABASE: Final = "hermes_memory"
ROLE: Final = "hermes"
PORT: Final = 5432
"""Only a part of the socket's name; nothing listens on a network."""

SOCKET: Final = f".s.PGSQL.{PORT}"
SOCKET_PATH_MAX: Final = 107
"""Bytes in a Unix socket's path, without the final NUL."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one server; *folder* is absolute and free of links."""

    folder: Path

    @classmethod
    def of(cls, folder: Path) -> Layout:
        """Return the layout of *folder*, however its path is spelled."""
        return cls(Path(os.path.realpath(folder)))

    @property
    def lock(self) -> Path:
        """Locked while a starter, a server or what is left of one works here."""
        return self.folder / "lock"

    @property
    def settings(self) -> Path:
        """The settings we own; the server's postgresql.conf includes them."""
        return self.folder / "server.conf"

    @property
    def data(self) -> Path:
        """The database cluster; complete as soon as it exists."""
        return self.folder / "data"

    @property
    def unfinished(self) -> Path:
        """Where a cluster is built; of no value once its builder is gone."""
        return self.folder / "data.new"

    @property
    def pid_file(self) -> Path:
        """The server's own note of its process and state."""
        return self.data / "postmaster.pid"

    @property
    def run(self) -> Path:
        """Where the server puts its socket."""
        return self.folder / "run"

    @property
    def log(self) -> Path:
        """Where the server logs."""
        return self.folder / "log"

    @property
    def start_log(self) -> Path:
        """What the server said before its own log was open."""
        return self.log / "start.log"

    @property
    def alias(self) -> Path | None:
        """A short link to `run`, where a client could not spell `run` itself.

        libpq limits the length and takes a comma for a list of hosts.
        """
        where = str(self.run)
        if _fits(self.run) and "," not in where and where.isprintable():
            return None
        name = hashlib.sha256(os.fsencode(self.run)).hexdigest()[:16]
        return runtime_dir() / name

    @property
    def socket_dir(self) -> Path:
        """The directory to name to a client."""
        return self.alias or self.run

    @property
    def socket(self) -> Path:
        """The socket's path for a client."""
        return self.socket_dir / SOCKET

    def dsn(self, peer: str) -> str:
        """Return the connection string; the port is said lest PGPORT says another.

        Args:
            peer: Account that must be listening, or the client goes away before it
                says a word; "" takes anybody.
        """
        where = f"host={_quoted(str(self.socket_dir))} port={PORT}"
        whose = f" requirepeer={_quoted(peer)}" if peer else ""
        return f"{where} dbname={DATABASE} user={ROLE}{whose}"


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", r"\\").replace("'", r"\'") + "'"


def _fits(socket_dir: Path) -> bool:
    return len(os.fsencode(socket_dir / SOCKET)) <= SOCKET_PATH_MAX


def make_alias(layout: Layout) -> None:
    """Create the short link to the socket's directory, if one is needed.

    Each user has links of its own, so nobody can point ours elsewhere.

    Raises:
        DatabaseUnavailable: Others may change it, or its path is too long as well.
    """
    alias = layout.alias
    if alias is None:
        return
    if not _fits(alias):
        raise DatabaseUnavailable(
            f"the socket's path {alias / SOCKET} is longer than {SOCKET_PATH_MAX} "
            f"bytes: set {RUNTIME_DIR_VARIABLE} to a shorter folder"
        )
    alias.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not leads_to_us(layout):
        raise DatabaseUnavailable(
            f"{alias.parent} is not a folder of this user alone: remove it, or set "
            f"{RUNTIME_DIR_VARIABLE} to another"
        )
    if not (alias.is_symlink() and alias.readlink() == layout.run):
        # Made under a name of this thread's own: others may be doing the same.
        fresh = alias.with_name(f"{alias.name}.{os.getpid()}.{threading.get_ident()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(layout.run)
        fresh.rename(alias)


def leads_to_us(layout: Layout) -> bool:
    """Tell whether the path that clients take to the socket is one only we can lay.

    False also where the short link's folder is not there.
    """
    if layout.alias is None:
        return True
    try:
        found = layout.alias.parent.lstat()
    except FileNotFoundError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return ours and not found.st_mode & 0o022


def make_folders(path: Path, account: Account) -> None:
    """Create *path* and what is missing above it, private to *account*."""
    if path.exists():
        return
    make_folders(path.parent, account)
    path.mkdir(mode=0o700, exist_ok=True)
    give(path, account)


def give(path: Path, account: Account) -> None:
    """Make *account* the owner of *path*; a link is given itself, not its target.

    Raises:
        DatabaseUnavailable: We are not root, or a root that may not.
    """
    if os.geteuid() == account.uid:
        return
    try:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    except OSError as exc:
        raise DatabaseUnavailable(
            f"cannot give {path} to {account.name}, who would run PostgreSQL: "
            f"{exc.strerror}; run the agent as a user other than root, or set "
            "plugins.pgvector.dsn"
        ) from exc


def put(layout: Layout, path: Path, text: str, account: Account) -> None:
    """Write a file of *account*, 0600, atomically; call it with the lock held."""
    fresh = layout.folder / f"{path.name}.new"
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)
    give(fresh, account)
    fresh.rename(path)
