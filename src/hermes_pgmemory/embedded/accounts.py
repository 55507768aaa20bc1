"""Which operating-system account runs what, and how to become it.

PostgreSQL refuses to run as root. A root agent therefore runs it as an
unprivileged account, which must read what lies below root's private directories:
it gets one capability for that, and no directory's permissions are ever changed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes_pgmemory.errors import DatabaseUnavailable

UNPRIVILEGED: Final = ("postgres", "nobody")
"""Accounts that may run the server for root, best first."""

CAPABILITIES: Final = {"dac_read_search": 2, "dac_override": 1}
"""Bit numbers of the capabilities we may hand on (capability.h)."""


@dataclass(frozen=True, slots=True)
class Account:
    """An operating-system account with a passwd entry."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Accounts:
    """The two accounts of one folder; the same one unless the agent is root."""

    agent: Account
    """Runs the agents, owns the folder, may connect."""
    server: Account
    """Runs PostgreSQL and owns its data; never root."""


def accounts_for(home: Path, folder: Path, data: Path) -> Accounts:
    """Tell who runs the agents of *home* and who its server.

    An existing server keeps its accounts, so that one added or removed meanwhile
    changes nothing.

    Args:
        home: HERMES_HOME; it or anything below may not exist yet.
        folder: The server's folder.
        data: The database cluster in it.

    Raises:
        DatabaseUnavailable: No account fits.
    """
    uid = os.geteuid()
    if uid != 0:
        me = _account(uid)
        if me is None:
            raise DatabaseUnavailable(
                f"user id {uid} has no passwd entry, which PostgreSQL needs: add one, "
                "or set plugins.pgvector.dsn to a server of yours"
            )
        return Accounts(me, me)
    owner = _account(_owner(folder if data.exists() else home))
    if owner is not None and owner.uid != 0:
        return Accounts(owner, owner)
    server = _account(_owner(data)) if data.exists() else None
    if server is None or server.uid == 0:
        server = _first_unprivileged()
    return Accounts(Account("root", 0, 0), server)


def _owner(path: Path) -> int:
    """Return the uid that owns *path*, or the nearest directory above that exists."""
    while not path.exists():
        path = path.parent
    return path.stat().st_uid


def _account(uid: int) -> Account | None:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _first_unprivileged() -> Account:
    for name in UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise DatabaseUnavailable(
        "PostgreSQL cannot run as root and there is no account "
        f"{' or '.join(UNPRIVILEGED)}: add one, run the agent as another user, or set "
        "plugins.pgvector.dsn to a server of yours"
    )


def command_as(account: Account, command: Sequence[str | Path]) -> list[str]:
    """Return *command*, preceded by what makes it run as *account*.

    Args:
        account: Either the current one, or any if the current one is root.
        command: Absolute path of a program of ours, then its arguments.

    Raises:
        DatabaseUnavailable: There is no `setpriv` to change the account with.
    """
    plain = [str(part) for part in command]
    if os.geteuid() == account.uid:
        return plain
    # The fixed folders serve an agent that was started with a bare PATH.
    search = os.pathsep.join((os.environ.get("PATH", ""), "/usr/bin", "/bin"))
    setpriv = shutil.which("setpriv", path=search)
    if setpriv is None:
        raise DatabaseUnavailable(
            "PostgreSQL cannot run as root, and there is no setpriv to run it as "
            f"{account.name}: install util-linux, run the agent as another user, or "
            "set plugins.pgvector.dsn to a server of yours"
        )
    become = [f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
    capability = _capability(Path(plain[0]))
    if capability is not None:
        become += [f"--inh-caps=+{capability}", f"--ambient-caps=+{capability}"]
    return [setpriv, *become, "--no-new-privs", "--", *plain]


def _capability(program: Path) -> str | None:
    """Choose the least capability that reaches below root's private directories.

    None where root itself has neither, as in some containers; it may still work.
    """
    held = _held_capabilities()
    able = [name for name, bit in CAPABILITIES.items() if held >> bit & 1]
    # Reading passes no x bit: a program installed for root alone needs the other.
    if not program.stat().st_mode & stat.S_IXOTH and "dac_override" in able:
        return "dac_override"
    return able[0] if able else None


def _held_capabilities() -> int:
    for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines():
        if line.startswith("CapPrm:"):
            return int(line.split()[1], 16)
    return 0
