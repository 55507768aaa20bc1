"""Homes for embedded servers. No server, and no file, outlives its test."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from embedded_kit import MakeHome, eventually, processes_in, server_of

from hermes_pgmemory.embedded import EmbeddedServer


@contextmanager
def _temporary_home(room: Path) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="pge-", dir=room))
    try:
        yield home
        server_of(home).stop()
        eventually(lambda: not processes_in(home))
    finally:
        for process in processes_in(home):
            process.kill()
        shutil.rmtree(home, ignore_errors=True)


def _copy(home: Path, to: Path) -> None:
    subprocess.run(["cp", "-a", f"{home}/.", to], check=True)


@pytest.fixture(scope="session", autouse=True)
def runtime_dir() -> Iterator[Path]:
    """A private place for the short links, instead of the user's own."""
    with tempfile.TemporaryDirectory(prefix="pgr-", dir="/tmp") as base:
        folder = Path(base)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_RUNTIME_DIR", str(folder))
            patch.setenv("HERMES_PGMEMORY_RUNTIME_DIR", str(folder / "run"))
            yield folder


@pytest.fixture(scope="session")
def temporary_home(room: Path) -> MakeHome:
    """Make an empty HERMES_HOME for a `with` block."""
    return lambda: _temporary_home(room)


@pytest.fixture
def home(temporary_home: MakeHome) -> Iterator[Path]:
    """An empty HERMES_HOME."""
    with temporary_home() as home:
        yield home


@pytest.fixture(scope="session")
def template(temporary_home: MakeHome) -> Iterator[Path]:
    """A home whose server ran once."""
    with temporary_home() as home:
        server_of(home).ensure_running()
        server_of(home).stop()
        yield home


@pytest.fixture(scope="module")
def shared(temporary_home: MakeHome, template: Path) -> Iterator[EmbeddedServer]:
    """A running server for tests that only look at it."""
    with temporary_home() as home:
        _copy(template, home)
        server_of(home).ensure_running()
        yield server_of(home)


@pytest.fixture
def used_home(home: Path, template: Path) -> Path:
    """A home whose server ran once and was stopped."""
    _copy(template, home)
    return home


@pytest.fixture
def embedded(used_home: Path) -> EmbeddedServer:
    """A server that ran once and was stopped."""
    return server_of(used_home)


@pytest.fixture
def running(embedded: EmbeddedServer) -> EmbeddedServer:
    """A running server."""
    embedded.ensure_running()
    return embedded
