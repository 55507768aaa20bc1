"""What users install holds all that the package needs, and works by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hermes_pgmemory"
pytestmark = pytest.mark.xdist_group("install")


def package_files() -> set[str]:
    """Every file of the package in this checkout, compiled ones aside."""
    return {
        f"hermes_pgmemory/{path.relative_to(PACKAGE)}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    ours = {name for name in names if ".dist-info/" not in name}
    assert ours == package_files()
    assert {".py", ".sql", ".in"} <= {Path(name).suffix for name in ours}
    assert "hermes_pgmemory/py.typed" in ours
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_distribution_can_be_tested(built):
    with tarfile.open(built.sdist) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    assert {f"src/{name}" for name in package_files()} <= names
    assert {"scripts/install.sh", "scripts/test", "tests/conftest.py"} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} <= names
    assert not any("/.venv/" in name or "__pycache__" in name for name in names)


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_plain_pip_installs_it_and_it_works(built, environment: Callable, kind: str):
    host = environment()
    pip = (host.python, "-m", "pip", "install", "--no-deps", getattr(built, kind))
    done = host.run(*pip)
    assert done.returncode == 0, done.stderr
    command = host.path / "bin" / "hermes-pgvector"
    assert "hermes-pgvector" in host.run(command, "--help").stdout
    code = (
        "import hermes_pgmemory\n"
        "from hermes_pgmemory import door\n"
        "from hermes_pgmemory.store import Store, migrate\n"
        "from pathlib import Path\n"
        "door.install(Path('home'))\n"
        "print(hermes_pgmemory.__file__)\n"
    )
    done = host.run(host.python, "-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(host.path))
    assert (host.user_home / "home" / "plugins" / "pgvector" / "plugin.yaml").exists()


def test_the_same_sources_give_the_same_wheel(built, tmp_path: Path):
    shutil.unpack_archive(built.sdist, tmp_path, filter="data")
    [source] = tmp_path.glob("hermes_pgmemory-*")
    # Other times, another folder, another umask: what a second machine would have.
    for path in source.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    hatch = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run([*hatch, "-t", "wheel"], cwd=source, check=True, umask=0o077)
    [again] = tmp_path.glob("*.whl")
    assert again.read_bytes() == built.wheel.read_bytes()
