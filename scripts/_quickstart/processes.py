"""Finding and ending what a run started, and nothing else.

A process is ours if it inherited our runtime folder's name, or is a PostgreSQL at work
inside our folder: that one drops its environment. This holds for grandchildren and
daemons, and outlasts a lost process id. Never ours is who started us, or sits at a
terminal: a person may look into the folder, with our variable set, as we tell them to.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from pathlib import Path

from hermes_pgmemory.embedded.binaries import find_binaries
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE

PROC = Path("/proc")


def ours(root: Path, runtime: Path) -> list[int]:
    """Return the ids of living processes that belong to a run, without our own."""
    marker = f"{RUNTIME_DIR_VARIABLE}={runtime}".encode()
    spared = _lineage()
    return [
        int(entry.name)
        for entry in PROC.glob("[0-9]*")
        if int(entry.name) not in spared
        and (_inherited(entry, marker) or _serves_in(entry, root))
        and not _at_a_terminal(entry)
    ]


def _lineage() -> set[int]:
    """Return this process and all that it descends from."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        facts = _facts(PROC / str(pid))
        pid = int(facts[1]) if facts else 0
    return found


def _at_a_terminal(entry: Path) -> bool:
    facts = _facts(entry)
    return bool(facts) and facts[4] != "0"


def _facts(entry: Path) -> list[str]:
    """Return what the kernel notes of a process, from its state on; see proc(5)."""
    try:
        # The program's name, which comes before, may hold anything.
        return (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _inherited(entry: Path, marker: bytes) -> bool:
    try:
        return marker in (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _serves_in(entry: Path, root: Path) -> bool:
    try:
        place, program = (entry / "cwd").readlink(), (entry / "exe").readlink()
    except OSError:
        return False
    return place.is_relative_to(root) and program.parent == _programs()


@functools.cache
def _programs() -> Path:
    return find_binaries().resolve()


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
