"""An environment of its own for each package that makes fixtures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
QUIET: Final = {
    "MEM0_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "ANONYMIZED_TELEMETRY": "False",
    "HF_HUB_OFFLINE": "1",
    "OPENAI_API_KEY": "none",
    "PYTHONWARNINGS": "ignore",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


def ensure(
    name: str, requirements: Sequence[str], *, flags: Sequence[str] = ()
) -> Path:
    """Return the Python of the environment *name*, made if it is not there.

    Args:
        name: The package with its version.
        requirements: What pip is to install.
        flags: More words for pip.
    """
    folder = ROOT / f".venv-peers/{name}"
    python, ready = folder / "bin/python", folder / ".ready"
    if not ready.exists():
        print(f"making the environment of {name} ...", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        command = [python, "-m", "pip", "install", "--quiet", *flags, *requirements]
        subprocess.run(command, check=True, env={**os.environ, **QUIET})
        ready.touch()
    return python


def run(
    python: Path, script: str, *words: str, scratch: Path, env: Mapping[str, str]
) -> str:
    """Return what *script* prints under *python*, whose home is *scratch*."""
    places = {"HOME": str(scratch), "MEM0_DIR": str(scratch), "SCRATCH": str(scratch)}
    keep = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    command = [str(python), str(Path(__file__).parent / script), *words]
    done = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=scratch,
        env={**keep, **QUIET, **places, **env},
    )
    return done.stdout
