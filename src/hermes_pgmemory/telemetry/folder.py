"""The folder of snapshots: one file per process, a lock beside it, and the total."""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from hermes_pgmemory.locking import alone

Key = tuple[str, ...]
"""A sample's name, then the values of its labels."""

_TOTAL: Final = "total.json"
_FOLDING: Final = "total.lock"
_SNAPSHOTS: Final = "process-*.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What one process has to tell."""

    counted: Mapping[Key, float]
    """Only ever grows while the process lives."""
    stored_last_minute: float = 0.0
    trouble: Mapping[str, str] = field(default_factory=dict[str, str])
    """By service, why the last try of it failed."""

    def encode(self) -> str:
        """Return the file's text."""
        return json.dumps(
            {
                "counted": _listed(self.counted),
                "stored_last_minute": self.stored_last_minute,
                "trouble": dict(self.trouble),
            }
        )


@dataclass(frozen=True, slots=True)
class Gathered:
    """All processes of one home, dead and alive."""

    counted: Mapping[Key, float]
    living: Sequence[Snapshot]


def gather(folder: Path, *, patience_s: float = 5.0) -> Gathered:
    """Add up what all processes counted; fold the dead ones into the total.

    Raises:
        OSError: The folder cannot be written, or another process has been folding
            for *patience_s* seconds.
    """
    if not folder.is_dir():
        return Gathered({}, ())
    with alone(folder / _FOLDING, patience_s=patience_s):
        total = _fold(folder)
        alive = list(living(folder))
    for snapshot in alive:
        total.update(snapshot.counted)
    return Gathered(total, alive)


def living(folder: Path) -> Generator[Snapshot]:
    """Yield what each living process tells; writes nothing."""
    for path in sorted(folder.glob(_SNAPSHOTS)):
        if not _dead(path):
            yield _decode(_load(path))


def write(path: Path, text: str) -> None:
    """Replace *path* at once; readers see the old text or the new one.

    Raises:
        OSError: It cannot be written.
    """
    fresh = path.with_suffix(f".{os.getpid()}.tmp")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def lock_path(path: Path) -> Path:
    """Return the file that the process which writes *path* holds locked."""
    return path.with_suffix(".lock")


def _fold(folder: Path) -> Counter[Key]:
    """Add what dead processes left to the total, each exactly once; return it."""
    data = _load(folder / _TOTAL)
    total = _counted(data)
    # A crash between the two steps below leaves files that are in the total already.
    done = {str(name) for name in cast("list[Any]", data.get("folded") or [])}
    dead = [path for path in folder.glob(_SNAPSHOTS) if _dead(path)]
    for path in dead:
        if path.name not in done:
            total.update(_counted(_load(path)))
    if dead:
        names = [path.name for path in dead]
        text = json.dumps({"counted": _listed(total), "folded": names})
        write(folder / _TOTAL, text)
        for path in dead:
            path.unlink(missing_ok=True)
    _sweep(folder)
    return total


def _sweep(folder: Path) -> None:
    """Remove what processes that died early left: locks, and files half written."""
    for lock in folder.glob("process-*.lock"):
        if lock.with_suffix(".json").exists():
            continue
        # Held while it goes: whoever made it just now must see that it is gone.
        fd = try_lock(lock)
        if fd is not None:
            lock.unlink(missing_ok=True)
            os.close(fd)
            for half in folder.glob(f"{lock.stem}.*.tmp"):
                half.unlink(missing_ok=True)


def try_lock(path: Path) -> int | None:
    """Lock *path*, made if need be; None when another process holds it.

    Raises:
        OSError: It cannot be made.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def _dead(path: Path) -> bool:
    """Tell whether nobody holds the lock of *path*."""
    try:
        fd = os.open(lock_path(path), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def _load(path: Path) -> Mapping[str, Any]:
    """Read one file; what a power cut left of it counts as empty."""
    with suppress(FileNotFoundError, ValueError):
        data: object = json.loads(path.read_text("utf-8"))
        if isinstance(data, dict):
            return cast("Mapping[str, Any]", data)
    return {}


def _decode(data: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        counted=_counted(data),
        stored_last_minute=float(data.get("stored_last_minute", 0.0)),
        trouble=cast("Mapping[str, str]", data.get("trouble") or {}),
    )


def _counted(data: Mapping[str, Any]) -> Counter[Key]:
    pairs = cast("Iterable[tuple[list[str], float]]", data.get("counted") or ())
    counted: Counter[Key] = Counter()
    for key, value in pairs:
        # Counter's own type says int; it adds whatever it is given.
        counted[tuple(key)] = cast("int", value)
    return counted


def _listed(counted: Mapping[Key, float]) -> list[tuple[Key, float]]:
    return sorted(counted.items())
