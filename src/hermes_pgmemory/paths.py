"""Where things lie, all below one HERMES_HOME (plus one socket folder per user)."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROVIDER: Final = "pgvector"
"""The provider's name: plugin directory, `memory.provider`, config section."""

RUNTIME_DIR_VARIABLE: Final = "HERMES_PGMEMORY_RUNTIME_DIR"
"""Environment variable that moves the folder for sockets elsewhere."""


@dataclass(frozen=True, slots=True)
class HomePaths:
    """The folders and files we use in one HERMES_HOME."""

    home: Path

    @property
    def config(self) -> Path:
        """The host's own configuration file."""
        return self.home / "config.yaml"

    @property
    def door(self) -> Path:
        """The plugin directory that the host scans."""
        return self.home / "plugins" / PROVIDER

    @property
    def memories(self) -> Path:
        """Where the host keeps MEMORY.md and USER.md."""
        return self.home / "memories"

    @property
    def state(self) -> Path:
        """Our own folder, 0700."""
        return self.home / PROVIDER

    @property
    def journal(self) -> Path:
        """The durable queue's folder, 0700."""
        return self.state / "journal"

    @property
    def metrics(self) -> Path:
        """Where processes publish what they have counted, 0700."""
        return self.state / "metrics"

    @property
    def server(self) -> Path:
        """The embedded PostgreSQL's folder."""
        return self.state / "postgres"


def default_home() -> Path:
    """Return HERMES_HOME from the environment, or the host's own default."""
    return Path(os.environ.get("HERMES_HOME") or Path.home() / ".hermes")


def program_home(name: str) -> Path:
    """Return the default home of programs that are not the host, one per database."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "hermes-pgmemory" / name


def runtime_dir() -> Path:
    """Return this user's folder for sockets; short, because their paths must be.

    At most 64 bytes on the usual systems: a Unix socket's path ends at 107. The
    caller creates it 0700 and checks its owner.
    """
    if chosen := os.environ.get(RUNTIME_DIR_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and len(base) < 50 and _is_own_folder(Path(base)):
        return Path(base) / "hermes-pgmemory"
    return Path(tempfile.gettempdir()) / f"hermes-pgmemory-{os.getuid()}"


def _is_own_folder(path: Path) -> bool:
    """Tell whether *path* is this user's: `runuser` keeps its caller's variable."""
    return path.is_dir() and path.stat().st_uid == os.getuid()
