"""The tutorial, typed word for word in a clean home."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from _quickstart import processes
from _quickstart.gateway import free_port
from _quickstart.host import Home
from fences import blocks

from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE

ROOT = Path(__file__).parents[2]
END = "=== a block ends here ==="


@pytest.fixture
def somebody(tmp_path: Path) -> Iterator[Home]:
    """A user who has nothing yet but the environment that runs the host."""
    runtime = Path(tempfile.mkdtemp(prefix="pgt-", dir="/tmp"))
    extra = {RUNTIME_DIR_VARIABLE: str(runtime), "API_SERVER_PORT": str(free_port())}
    home = tmp_path / "minions"
    yield Home(path=home, user_home=tmp_path, extra_env=extra)
    processes.end(home, runtime)
    shutil.rmtree(runtime)


def test_the_tutorial_goes_as_it_says(somebody: Home, tmp_path: Path):
    todo = list(blocks(ROOT / "docs" / "tutorial.md"))
    assert len(todo) > 10
    script = tmp_path / "typed.sh"
    script.write_text("".join(f"{one.commands}echo '{END}'\n" for one in todo))
    with (tmp_path / "printed").open("w+") as out:
        # To a file: what goes on in the background would hold a pipe open.
        done = subprocess.run(
            ["bash", "-euo", "pipefail", str(script)],
            cwd=ROOT,
            env=somebody.env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=240,
            check=False,
        )
        out.seek(0)
        printed = out.read()
    assert done.returncode == 0, printed[-3000:]
    for one, said in zip(todo, printed.split(f"{END}\n"), strict=False):
        assert one.is_like(said), f"{one.commands}\nprinted\n{said}"
    runtime = Path(somebody.env[RUNTIME_DIR_VARIABLE])
    assert processes.ours(somebody.path, runtime) == []
