from __future__ import annotations

import os
import py_compile
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from hermes_pgmemory import door
from hermes_pgmemory.door import DoorState
from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.survey import host

PLUGIN = ["__init__.py", "cli.py", "config_schema.py", "plugin.yaml"]
TAB = ["dashboard/dist/index.js", "dashboard/manifest.json", "dashboard/plugin_api.py"]
FILES = sorted([*PLUGIN, *TAB])


def names(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    )


def age(path: Path) -> None:
    """Make *path* what an older version of the package wrote."""
    text = path.read_text()
    path.write_text(
        text.replace(
            f"hermes-pgmemory {version('hermes-pgmemory')},", "hermes-pgmemory 0.0.1,"
        )
    )


@contextmanager
def umask(value: int) -> Iterator[None]:
    old = os.umask(value)
    try:
        yield
    finally:
        os.umask(old)


class TestInstall:
    def test_it_writes_its_files_and_nothing_else(self, home: Path):
        written = door.install(home)
        folder = home / "plugins" / "pgvector"
        assert names(folder) == FILES
        assert sorted(str(path.relative_to(folder)) for path in written) == FILES

    def test_the_file_that_makes_it_a_plugin_comes_last(self, home: Path):
        assert door.install(home)[-1].name == "__init__.py"

    def test_again_it_writes_nothing(self, home: Path, folder: Path):
        inodes = [(folder / name).stat().st_ino for name in FILES]
        assert door.install(home) == []
        assert [(folder / name).stat().st_ino for name in FILES] == inodes

    @pytest.mark.parametrize(
        ("mask", "file_mode", "folder_mode"),
        [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)],
    )
    def test_modes_follow_the_umask(
        self, home: Path, mask: int, file_mode: int, folder_mode: int
    ):
        with umask(mask):
            written = door.install(home)
        assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {file_mode}
        assert stat.S_IMODE(written[0].parent.stat().st_mode) == folder_mode

    def test_the_first_agent_finds_it_compiled(self, folder: Path):
        compiled = {
            path.name.split(".")[0] for path in folder.glob("__pycache__/*.pyc")
        }
        assert compiled == {"__init__", "cli", "config_schema"}

    def test_an_older_door_is_replaced(self, home: Path, folder: Path):
        fresh = (folder / "cli.py").read_text()
        age(folder / "cli.py")
        assert door.install(home) == [folder / "cli.py"]
        assert (folder / "cli.py").read_text() == fresh
        assert names(folder) == FILES

    def test_a_missing_file_is_added(self, home: Path, folder: Path):
        (folder / "cli.py").unlink()
        assert door.install(home) == [folder / "cli.py"]

    def test_what_was_edited_by_hand_is_kept_aside(self, home: Path, folder: Path):
        edited = (folder / "cli.py").read_text() + "# mine\n"
        (folder / "cli.py").write_text(edited)
        door.install(home)
        assert (folder / "cli.py.bak").read_text() == edited
        assert door.inspect(home).state is DoorState.CURRENT

    def test_files_beside_ours_are_left_alone(self, home: Path, folder: Path):
        (folder / "dashboard" / "style.css").write_text("mine")
        (folder / "notes.txt").write_text("mine")
        age(folder / "cli.py")
        door.install(home)
        assert names(folder) == sorted([*FILES, "dashboard/style.css", "notes.txt"])


class TestAnotherPlugin:
    @pytest.fixture
    def foreign(self, home: Path) -> Path:
        folder = home / "plugins" / "pgvector"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("# class X(MemoryProvider)")
        (folder / "store.py").write_text("")
        return folder

    def test_its_directory_is_refused_in_one_clear_line(
        self, home: Path, foreign: Path
    ):
        with pytest.raises(ConfigError) as caught:
            door.install(home)
        assert str(foreign) in str(caught.value)
        assert "--force" in str(caught.value)
        assert names(foreign) == ["__init__.py", "store.py"]

    def test_with_force_it_is_moved_out_of_the_hosts_sight(
        self, home: Path, foreign: Path
    ):
        door.install(home, force=True)
        assert names(foreign) == FILES
        assert names(home / "pgvector" / "replaced-plugin") == [
            "__init__.py",
            "store.py",
        ]

    def test_a_second_one_does_not_replace_the_first(self, home: Path, foreign: Path):
        door.install(home, force=True)
        for path in foreign.glob("*.*"):
            path.unlink()
        (foreign / "plugin.yaml").write_text("name: other")
        door.install(home, force=True)
        kept = sorted(path.name for path in (home / "pgvector").iterdir())
        assert kept == ["replaced-plugin", "replaced-plugin-2"]

    def test_the_latest_is_put_back_once_we_are_gone(self, home: Path, foreign: Path):
        state = home / "pgvector"
        for number in ("", "-2", "-9", "-10"):
            (state / f"replaced-plugin{number}").mkdir(parents=True)
        assert door.put_back(home) is None
        for path in foreign.iterdir():
            path.unlink()
        foreign.rmdir()
        assert door.put_back(home) == foreign
        assert "replaced-plugin-10" not in names(state)

    def test_uninstall_leaves_it_alone(self, home: Path, foreign: Path):
        assert door.uninstall(home) == []
        assert names(foreign) == ["__init__.py", "store.py"]


class TestUninstall:
    def test_it_removes_the_directory(self, home: Path, folder: Path):
        # The host's dashboard compiles what it runs.
        cache = folder / "dashboard" / "__pycache__"
        py_compile.compile(str(folder / "dashboard" / "plugin_api.py"), doraise=True)
        assert list(cache.iterdir())
        gone = door.uninstall(home)
        assert sorted(str(path.relative_to(folder)) for path in gone) == FILES
        assert not folder.exists()

    def test_it_leaves_what_is_not_ours(self, home: Path, folder: Path):
        (folder / "notes.txt").write_text("mine")
        (folder / "dashboard" / "style.css").write_text("mine")
        door.uninstall(home)
        assert names(folder) == ["dashboard/style.css", "notes.txt"]

    def test_without_a_door_it_does_nothing(self, home: Path):
        assert door.uninstall(home) == []


class TestInspect:
    def test_nothing_there(self, home: Path):
        status = door.inspect(home)
        assert (status.state, status.version) == (DoorState.MISSING, None)

    def test_as_installed(self, home: Path, folder: Path):
        status = door.inspect(home)
        assert status.path == folder
        assert status.state is DoorState.CURRENT
        assert status.version == version("hermes-pgmemory")

    def test_of_another_version(self, home: Path, folder: Path):
        for name in FILES:
            age(folder / name)
        status = door.inspect(home)
        assert (status.state, status.version) == (DoorState.STALE, "0.0.1")

    def test_incomplete(self, home: Path, folder: Path):
        (folder / "plugin.yaml").unlink()
        assert door.inspect(home).state is DoorState.STALE

    @pytest.mark.parametrize("name", FILES)
    def test_edited(self, home: Path, folder: Path, name: str):
        with (folder / name).open("a") as out:
            out.write("# mine\n")
        assert door.inspect(home).state is DoorState.EDITED

    def test_another_plugins(self, home: Path, folder: Path):
        for name in PLUGIN:  # with our tab still beside it
            (folder / name).write_text("name: other")
        assert door.inspect(home).state is DoorState.FOREIGN


class TestAnothersTab:
    @pytest.fixture
    def theirs(self, home: Path) -> Path:
        folder = home / "plugins" / "pgvector" / "dashboard"
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text('{"name": "pgvector", "label": "Mine"}')
        return folder

    def test_it_stays_and_the_door_goes_without_ours(self, home: Path, theirs: Path):
        folder = theirs.parent
        door.install(home)
        assert names(folder) == sorted([*PLUGIN, "dashboard/manifest.json"])
        assert "Mine" in (theirs / "manifest.json").read_text()
        status = door.inspect(home)
        assert (status.state, status.foreign_tab) == (DoorState.CURRENT, True)
        assert "without the tab" in host.look_at_door(home).detail
        assert door.install(home) == []
        door.uninstall(home)
        assert names(folder) == ["dashboard/manifest.json"]

    def test_what_we_moved_aside_ourselves_is_none(self, home: Path, folder: Path):
        index = folder / "dashboard" / "dist" / "index.js"
        index.write_text("mine")
        door.install(home)
        assert index.with_name("index.js.bak").read_text() == "mine"
        door.uninstall(home)
        door.install(home)
        status = door.inspect(home)
        assert (status.state, status.foreign_tab) == (DoorState.CURRENT, False)
