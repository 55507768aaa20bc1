"""Where a run lives, and the record of a fleet that was left running."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from _quickstart.host import HostError

_MARKER: Final = ".hermes-pgmemory-quickstart"
"""A file that says: this folder is a run's, and may be emptied."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One run's folders."""

    root: str
    runtime: str
    temporary: bool
    """Whether the root was made for this run, and goes with it."""
    pids: tuple[int, ...] = ()
    """Of a kept fleet: gateways and chat model, in the order in which to end them."""

    def keep_logs(self, folder: Path) -> None:
        """Delete the runtime folder, its logs moved to *folder*."""
        for log in Path(self.runtime).glob("*.log"):
            shutil.copy(log, folder)
        shutil.rmtree(self.runtime, ignore_errors=True)

    def remove(self) -> None:
        """Delete what the run need not leave behind."""
        shutil.rmtree(self.runtime, ignore_errors=True)
        root = Path(self.root)
        if self.temporary and (root / _MARKER).exists():
            shutil.rmtree(root, ignore_errors=True)


def choose() -> Place:
    """Make the folders of a new run.

    Raises:
        HostError: QUICKSTART_HOME names a folder that is not a quickstart's.
    """
    named = os.environ.get("QUICKSTART_HOME")
    root = (
        _emptied(Path(named).expanduser().resolve())
        if named
        else Path(tempfile.mkdtemp(prefix="hermes-quickstart-"))
    )
    (root / _MARKER).touch()
    # Short, and always below /tmp: a Unix socket's path ends at 107 bytes.
    runtime = tempfile.mkdtemp(prefix="hpq-", dir="/tmp")
    return Place(root=str(root), runtime=runtime, temporary=not named)


def _emptied(root: Path) -> Path:
    """Return *root* empty, if it is new, empty, or a former run's."""
    users = {Path.home() / ".hermes", Path.home()}
    if root in {path.resolve() for path in users}:
        raise HostError(f"QUICKSTART_HOME must not be {root}: that is your own")
    if any(Path(kept.root) == root for _, kept in recorded()):
        raise HostError(
            f"a fleet is running in {root}; stop it: scripts/quickstart --stop"
        )
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        if not (root / _MARKER).exists():
            raise HostError(
                f"QUICKSTART_HOME ({root}) holds something else; "
                "name a folder that is new or empty"
            )
        shutil.rmtree(root)
        root.mkdir()
    return root


def _records() -> Path:
    """Return the folder of records; only this user's own is trusted."""
    folder = Path(tempfile.gettempdir()) / f"hermes-quickstart-kept-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise HostError(f"{folder} is not yours alone; remove it")
    return folder


def record(place: Place) -> None:
    """Remember a fleet that stays."""
    path = _records() / f"{Path(place.runtime).name}.json"
    path.write_text(json.dumps(asdict(place)), encoding="utf-8")


def recorded() -> Iterator[tuple[Path, Place]]:
    """Yield every remembered fleet with its record."""
    for path in sorted(_records().glob("*.json")):
        yield path, Place(**json.loads(path.read_text(encoding="utf-8")))
