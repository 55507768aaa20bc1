"""The plugin directory: the only thing of ours that the host itself looks at.

`$HERMES_HOME/plugins/pgvector/` holds four small generated files that import this
package, and in `dashboard/` three more: a tab of the host's own dashboard. They are
written whole or not at all, carry version and checksum, and take no directory from
anybody else.
"""

from __future__ import annotations

import contextlib
import os
import py_compile
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from hermes_pgmemory.door._render import FILES, TAB, TAB_FILES, Mark, read_mark, render
from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.paths import HomePaths

__all__ = [
    "DISPLACED",
    "DoorState",
    "DoorStatus",
    "displaced",
    "inspect",
    "install",
    "put_back",
    "uninstall",
]

DISPLACED: Final = "replaced-plugin"
"""Name, in our own folder, of another plugin's directory that was moved aside."""


class DoorState(StrEnum):
    """What stands in the plugin directory."""

    MISSING = "missing"
    CURRENT = "current"
    STALE = "stale"
    """Ours, but of another version or incomplete."""
    EDITED = "edited"
    """Ours, changed by hand."""
    FOREIGN = "foreign"
    """Another plugin's."""


@dataclass(frozen=True, slots=True)
class DoorStatus:
    """The plugin directory at one moment."""

    path: Path
    state: DoorState
    version: str | None
    """The package version that wrote it, if we did."""
    foreign_tab: bool = False
    """Whether its `dashboard/` is somebody else's; ours is then left out."""


def inspect(home: Path) -> DoorStatus:
    """Look at the plugin directory of *home* without changing it."""
    folder = HomePaths(home).door
    texts = {name: _read(folder / name) for name in (*FILES, *TAB_FILES)}
    present = {name: text for name, text in texts.items() if text is not None}
    marks = {name: read_mark(text) for name, text in present.items()}
    foreign_tab = _is_foreign_tab(folder / TAB, marks)
    if foreign_tab:
        present = {name: text for name, text in present.items() if name in FILES}
    found = [marks[name] for name in present]
    version = next((mark[0] for mark in found if mark), None)
    state = _state(present, marks, foreign_tab=foreign_tab)
    return DoorStatus(folder, state, version, foreign_tab)


def _state(
    present: Mapping[str, str],
    marks: Mapping[str, Mark | None],
    *,
    foreign_tab: bool,
) -> DoorState:
    if not present:
        return DoorState.MISSING
    plugin = [marks[name] for name in present if name in FILES]
    if plugin and not any(plugin):
        return DoorState.FOREIGN
    ours = [marks[name] for name in present]
    # A foreign file beside ours is an edit; on its own it is somebody's plugin.
    if not all(mark and mark[1] for mark in ours):
        return DoorState.EDITED
    current = present == _wanted(foreign_tab=foreign_tab)
    return DoorState.CURRENT if current else DoorState.STALE


def _wanted(*, foreign_tab: bool) -> dict[str, str]:
    """Return the files that belong there, in the order of writing."""
    files = render()
    return {
        name: text for name, text in files.items() if name in FILES or not foreign_tab
    }


def _is_foreign_tab(folder: Path, marks: Mapping[str, Mark | None]) -> bool:
    if any(marks.get(name) for name in TAB_FILES):
        return False
    if folder.is_symlink() or not folder.is_dir():
        return folder.is_symlink() or folder.exists()
    # What we moved aside, and what Python compiled, is nobody's tab.
    left = (path.suffix for path in folder.rglob("*") if path.is_file())
    return any(suffix not in (".bak", ".pyc") for suffix in left)


def install(home: Path, *, force: bool = False) -> list[Path]:
    """Write the door into *home*; writes nothing that is there already.

    Files that were edited by hand are kept beside the new ones as `NAME.bak`. With
    *force* another plugin's directory is moved to `pgvector/replaced-plugin`, from
    where `put_back` takes it. Somebody else's `dashboard/` stays as it is; the door
    then goes without its tab.

    Returns:
        The files that were written.

    Raises:
        ConfigError: The directory belongs to another plugin, or cannot be written.
    """
    status = inspect(home)
    folder = status.path
    try:
        if status.state is DoorState.FOREIGN:
            if not force:
                problem = (
                    "belongs to another plugin; move it away, or add --force to have "
                    "it moved aside"
                )
                raise ConfigError({str(folder): problem})
            _move_aside(folder, HomePaths(home).state)
            status = inspect(home)
        wanted = _wanted(foreign_tab=status.foreign_tab)
        return [
            folder / name
            for name, text in wanted.items()
            if _write(folder / name, text)
        ]
    except OSError as exc:
        raise ConfigError({str(folder): f"cannot be written: {exc}"}) from exc


def uninstall(home: Path) -> list[Path]:
    """Remove the door's files from *home*, and the directory if that empties it.

    Anything that is not ours stays.

    Raises:
        ConfigError: A file cannot be removed.
    """
    folder = HomePaths(home).door
    gone: list[Path] = []
    try:
        for name in (*FILES, *TAB_FILES):
            path = folder / name
            text = _read(path)
            if text is not None and read_mark(text):
                path.unlink()
                gone.append(path)
        # Of the tab's folders only such as held a file of ours; the innermost first.
        places = {folder, *(path.parent for path in gone)} if gone else set[Path]()
        for place in sorted(places, reverse=True):
            _tidy(place)
    except OSError as exc:
        raise ConfigError({str(folder): f"cannot be removed: {exc}"}) from exc
    return gone


def _tidy(folder: Path) -> None:
    """Remove a directory that holds nothing but what Python compiled there."""
    if not any(folder.glob("*.py")):
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty: somebody's files
            folder.rmdir()


def displaced(home: Path) -> Path | None:
    """Return where another plugin's directory lies that was moved aside, the latest."""
    state = HomePaths(home).state
    found = [path for path in state.glob(f"{DISPLACED}*") if path.is_dir()]
    # -2 comes after none, and -10 after -9.
    return max(found, key=lambda path: (len(path.name), path.name), default=None)


def put_back(home: Path) -> Path | None:
    """Move the plugin that was in our place before us back there.

    Returns:
        The directory; None where there was none, or something is in its place.

    Raises:
        ConfigError: It cannot be moved.
    """
    place, aside = HomePaths(home).door, displaced(home)
    if aside is None or place.exists():
        return None
    try:
        aside.rename(place)
    except OSError as exc:
        raise ConfigError({str(aside): f"cannot be moved to {place}: {exc}"}) from exc
    return place


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _write(path: Path, text: str) -> bool:
    """Write *text* unless it is there; returns whether it was written."""
    old = _read(path)
    if old == text:
        return False
    mark = None if old is None else read_mark(old)
    if old is not None and (mark is None or not mark[1]):
        path.replace(path.with_name(f"{path.name}.bak"))
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with fresh.open("x", encoding="utf-8") as out:  # mode by the umask
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    if path.suffix == ".py":
        # The first agent need not compile: others may be loading beside it.
        py_compile.compile(
            str(path),
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP,
        )
    return True


def _move_aside(folder: Path, state: Path) -> None:
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = state / DISPLACED
    number = 1
    while place.exists() or place.is_symlink():
        number += 1
        place = state / f"{DISPLACED}-{number}"
    folder.rename(place)
