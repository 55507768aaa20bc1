"""Environments as users have them: the real host, our package not in them yet.

Everything of this environment but ourselves is linked into a folder that a fresh
virtual environment looks into. So real pip has real work to do with our package, and
finds all it needs without an index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

SITE = Path(sysconfig.get_path("purelib"))
HERMES = """\
#!{python}
import sys
from hermes_cli.main import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the host in it, and the installer run for it."""

    path: Path
    user_home: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    def run(
        self, *command: str | Path, **extra_env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; nothing of the caller's but TMPDIR and locale leaks in."""
        kept = {k: os.environ[k] for k in ("TMPDIR", "LANG") if k in os.environ}
        env = {
            **kept,
            "PATH": f"{self.path / 'bin'}{os.pathsep}{os.defpath}",
            "HOME": str(self.user_home),
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip's word for "no isolation"
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_COMPILE": "1",  # most is never imported
            "NO_COLOR": "1",
            **self.env,
            **extra_env,
        }
        return subprocess.run(
            [str(word) for word in command],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.user_home,
        )

    def install(
        self, *words: str | Path, **extra_env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run scripts/install.sh."""
        return self.run("bash", ROOT / "scripts" / "install.sh", *words, **extra_env)

    def can_import(self) -> bool:
        return self.run(self.python, "-c", "import hermes_pgmemory").returncode == 0


def _links(folder: Path, *, pip: bool) -> Path:
    """Link everything of this environment but ourselves into *folder*."""
    folder.mkdir()
    for path in SITE.iterdir():
        name = path.name.lower()
        if "hermes_pgmemory" in name or name.endswith(".pth"):
            continue
        if pip or not (name == "pip" or name.startswith("pip-")):
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="session")
def with_pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _links(tmp_path_factory.mktemp("site") / "all", pip=True)


@pytest.fixture(scope="session")
def without_pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _links(tmp_path_factory.mktemp("site") / "all", pip=False)


@pytest.fixture
def environment(tmp_path: Path, with_pip: Path) -> Callable[..., Environment]:
    """Make environments of a test's own."""

    def environment(
        name: str = "host", *, site: Path | None = with_pip, **env: str
    ) -> Environment:
        folder, user_home = tmp_path / name, tmp_path / "user"
        user_home.mkdir(exist_ok=True)
        made = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
        subprocess.run(made, check=True)
        environment = Environment(folder, user_home, env)
        if site is not None:
            [packages] = folder.glob("lib/python3*/site-packages")
            (packages / "host.pth").write_text(f"{site}\n")
            hermes = folder / "bin" / "hermes"
            hermes.write_text(HERMES.format(python=environment.python))
            hermes.chmod(0o755)
        return environment

    return environment


@dataclass(frozen=True)
class Built:
    """What is published."""

    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The source distribution of this checkout, and the wheel made from that."""
    folder = tmp_path_factory.mktemp("built")
    hatch = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run([*hatch, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    [sdist] = folder.glob("*.tar.gz")
    shutil.unpack_archive(sdist, folder / "source", filter="data")
    [source] = (folder / "source").iterdir()
    subprocess.run([*hatch, "-t", "wheel"], cwd=source, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    return Built(sdist, wheel)
