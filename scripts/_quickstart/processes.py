"""Finding and ending what a run started, and nothing else.

A process is ours if it inherited our runtime folder's name, or works inside our
folder. That holds for grandchildren and daemons, and outlasts a lost process id.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE

PROC = Path("/proc")


def ours(root: Path, runtime: Path) -> list[int]:
    """Return the ids of living processes that belong to a run, without our own."""
    marker = f"{RUNTIME_DIR_VARIABLE}={runtime}".encode()
    return [
        int(entry.name)
        for entry in PROC.glob("[0-9]*")
        if int(entry.name) != os.getpid()
        and (_inherited(entry, marker) or _works_in(entry, root))
    ]


def _inherited(entry: Path, marker: bytes) -> bool:
    try:
        return marker in (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _works_in(entry: Path, root: Path) -> bool:
    try:
        return (entry / "cwd").readlink().is_relative_to(root)
    except OSError:
        return False


def end(root: Path, runtime: Path, *, patience_s: float = 10.0) -> int:
    """End what is left of a run, by id; return how many processes had to be told.

    They get SIGTERM, and SIGKILL when *patience_s* is over.
    """
    told: set[int] = set()
    deadline = time.monotonic() + patience_s
    while left := ours(root, runtime):
        late = time.monotonic() > deadline
        for pid in left:
            if late or pid not in told:
                _signal(pid, signal.SIGKILL if late else signal.SIGTERM)
        told.update(left)
        time.sleep(0.05)
    return len(told)


def end_one(pid: int, root: Path, runtime: Path, *, patience_s: float) -> None:
    """End one process gently, if it still is one of the run's."""
    deadline = time.monotonic() + patience_s
    if pid in ours(root, runtime):
        _signal(pid, signal.SIGTERM)
    while pid in ours(root, runtime) and time.monotonic() < deadline:
        time.sleep(0.05)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
