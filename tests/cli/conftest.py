"""Homes of a test's own, and the command run in this process or in a child."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cli_kit import Run

from command_kit import Ran
from hermes_pgmemory import cli
from hermes_pgmemory.embed import stop_local_server
from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE, HomePaths

BIN = Path(sys.executable).parent


@pytest.fixture(scope="session")
def runtime_dir() -> Iterator[Path]:
    """A short folder for the sockets of this test process's servers."""
    folder = Path(tempfile.mkdtemp(prefix="pgc-", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(RUNTIME_DIR_VARIABLE, str(folder))
        yield folder
        stop_local_server()
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def nothing_of_the_users(
    runtime_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(RUNTIME_DIR_VARIABLE, str(runtime_dir))
    monkeypatch.setenv("HERMES_MANAGED_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("HERMES_HOME", "PGMEMORY_DSN", "PGMEMORY_DSN_READ"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A HERMES_HOME; an embedded server that a test starts in it is stopped."""
    home = tmp_path / "home"
    home.mkdir()
    yield home
    server = HomePaths(home).server
    if server.exists():
        EmbeddedServer(server).stop()


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `hermes-pgvector VERB ... --home HOME` in this process."""

    def run(verb: str, *words: str) -> Ran:
        capsys.readouterr()
        try:
            status = cli.main([verb, *words, "--home", str(home)])
        except SystemExit as exc:
            status = int(exc.code or 0)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture
def child(home: Path, tmp_path: Path, runtime_dir: Path) -> Run:
    """Run one of the environment's commands in a process of its own."""

    def child(*words: str, **extra_env: str) -> Ran:
        nowhere = "http://127.0.0.1:9"
        env = {
            "PATH": f"{BIN}{os.pathsep}{os.defpath}",
            "HOME": str(tmp_path),
            "HERMES_HOME": str(home),
            RUNTIME_DIR_VARIABLE: str(runtime_dir),
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "HERMES_DISABLE_LAZY_INSTALLS": "1",
            **extra_env,
        }
        done = subprocess.run(
            [str(BIN / words[0]), *words[1:]],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return child


@pytest.fixture
def configure(home: Path) -> Callable[..., None]:
    """Write settings into config.yaml, below a comment of the operator's."""

    def configure(**settings: Any) -> None:
        section = json.dumps(settings)
        text = f"# kept by hand\nplugins:\n  pgvector: {section}\n"
        (home / "config.yaml").write_text(text)

    return configure
