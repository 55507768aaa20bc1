"""Check memory providers against what the host asks of them.

Each PROVIDER is one of conformance/providers, for which this makes a database where
one is needed, or a .toml file, whose variables are then yours to set. The results go
to conformance/results, from which the documentation's table is made.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _stage import Stage, say, stage

from _conformance.endpoint import Endpoint
from hermes_pgmemory import door
from hermes_pgmemory.paths import HomePaths

CONFORMANCE = Path(__file__).parents[2] / "conformance"
PYTEST = (sys.executable, "-m", "pytest", str(CONFORMANCE), "-q")
RESULTS = CONFORMANCE / "results"
KNOWN = ("pgvector", "reference", "holographic")


def main() -> int:
    """Check each provider; return 1 if one fails what it must do."""
    args = _arguments()
    failed = False
    for name in args.providers or KNOWN:
        results = RESULTS / f"{Path(name).stem}.json"
        say(f"== {name}")
        with _needs(name) as env:
            done = subprocess.run(
                [
                    *PYTEST,
                    f"--provider={name}",
                    f"--report={results}",
                    *shlex.split(args.pytest),
                ],
                env={**os.environ, **env},
                stdout=sys.stderr,
                check=False,
            )
        failed = failed or done.returncode != 0
    return int(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/conformance", description=__doc__)
    parser.add_argument("providers", nargs="*", metavar="PROVIDER", help=f"{KNOWN}")
    parser.add_argument("--pytest", default="", help="more of pytest's own options")
    return parser.parse_args()


@contextmanager
def _needs(name: str) -> Iterator[dict[str, str]]:
    """Yield the variables of the adapter *name*, and keep up what they name."""
    if name not in ("pgvector", "reference"):
        yield {}
        return
    with stage() as scene, Endpoint() as url:
        variables = _ours(scene) if name == "pgvector" else _reference(scene)
        yield {"CONFORMANCE_EMBED_URL": url, **variables}


def _ours(scene: Stage) -> dict[str, str]:
    home = scene.folder / "door"
    home.mkdir()
    door.install(home)
    plugin = str(HomePaths(home).door)
    return {"CONFORMANCE_DSN": scene.ours("ours"), "CONFORMANCE_PLUGIN": plugin}


def _reference(scene: Stage) -> dict[str, str]:
    python = os.environ["REFERENCE_PYTHON"]
    ask = (
        "import importlib.metadata as m, hermes_pgvector as p;"
        "print(p.__path__[0]); print(m.version('hermes-memory-pgvector'))"
    )
    said = subprocess.check_output([python, "-c", ask], text=True).splitlines()
    return {
        "CONFORMANCE_DSN": scene.reference("reference", python),
        "CONFORMANCE_PLUGIN": said[0],
        "CONFORMANCE_VERSION": said[1],
    }


sys.exit(main())
