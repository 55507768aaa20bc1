"""A HERMES_HOME with the door, and Python processes that load it as the host does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_pgmemory import door

BIN = Path(sys.executable).parent


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder(home: Path) -> Path:
    """The installed door."""
    door.install(home)
    return home / "plugins" / "pgvector"


@pytest.fixture
def host_env(home: Path, tmp_path: Path) -> dict[str, str]:
    """An environment in which the host reaches nothing of the user's."""
    nowhere = "http://127.0.0.1:9"
    return {
        "PATH": f"{BIN}{os.pathsep}{os.defpath}",
        "HOME": str(tmp_path),
        "HERMES_HOME": str(home),
        "HERMES_PGMEMORY_RUNTIME_DIR": str(tmp_path / "run"),
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1,localhost",
        "NO_COLOR": "1",
        "TERM": "dumb",
        # The host would try to install packages into this very environment.
        "HERMES_DISABLE_LAZY_INSTALLS": "1",
        "PIP_NO_INDEX": "1",
        "UV_OFFLINE": "1",
    }


@pytest.fixture
def without_package(host_env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The same, with a hermes_pgmemory that cannot be imported."""
    shadow = tmp_path / "shadow" / "hermes_pgmemory"
    shadow.mkdir(parents=True)
    missing = (
        "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)"
    )
    (shadow / "__init__.py").write_text(missing)
    return {**host_env, "PYTHONPATH": str(shadow.parent)}


@pytest.fixture
def in_host(host_env: dict[str, str]) -> Callable[..., Any]:
    """Run code in a fresh process; what it assigns to `result` comes back."""

    def in_host(code: str, env: dict[str, str] | None = None) -> Any:
        script = f"import json\n{textwrap.dedent(code)}\nprint(json.dumps(result))"
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=env or host_env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return in_host


@pytest.fixture
def hermes(host_env: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the host's own command."""

    def hermes(
        *words: str, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / "hermes"), *words],
            env=env or host_env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return hermes
