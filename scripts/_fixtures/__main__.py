"""Make the fixtures of `import` anew by running other memories' own packages.

They go to tests/moving/fixtures, a folder for each package and version. What each
was made with stands in its `made.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from _servers.cluster import Cluster
from _servers.keeping import Servers

from _fixtures import environments
from _fixtures.endpoint import Endpoint
from _fixtures.peers import PEERS, Files, Peer, Stage

FIXTURES = environments.ROOT / "tests/moving/fixtures"


def main() -> int:
    """Make what was asked for; return 2 for a name that is none."""
    parser = argparse.ArgumentParser(prog="scripts/fixtures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="mem0ai, mem0ai-2.2.1")
    parser.add_argument("--source", type=Path, help="a checkout of what PyPI lacks")
    args = parser.parse_args()
    peers = [one for one in PEERS if not args.names or _is_meant(one, args.names)]
    if not peers:
        parser.error(f"none of {', '.join(one.name for one in PEERS)}")
    cluster = Cluster(Servers())
    try:
        for peer in peers:
            _make(peer, cluster, args.source and args.source.resolve())
    finally:
        cluster.close()
    return 0


def _is_meant(peer: Peer, names: Sequence[str]) -> bool:
    return peer.package in names or peer.name in names


def _make(peer: Peer, cluster: Cluster, source: Path | None) -> None:
    if peer.from_source and source is None:
        print(f"{peer.name}: PyPI lacks it; say --source CHECKOUT", file=sys.stderr)
        return
    python = environments.ensure(peer.name, peer.requirements(source), flags=peer.flags)
    database = peer.name.replace("-", "_").replace(".", "_")
    cluster.ask(f'CREATE DATABASE "{database}"')
    cluster.ask("CREATE EXTENSION vector", database)
    endpoint = Endpoint(peer.answers, dimension=peer.dimension)
    with tempfile.TemporaryDirectory() as scratch, endpoint as url:
        stage = Stage(
            python=python,
            cluster=cluster,
            database=database,
            scratch=Path(scratch),
            url=url,
            source=source,
        )
        _write(peer, peer.make(stage))


def _write(peer: Peer, made: Files) -> None:
    folder = FIXTURES / peer.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    by = {"package": peer.package, "version": peer.version, "source": peer.origin}
    for name, held in {"made.json": by, **made}.items():
        if isinstance(held, bytes):
            (folder / name).write_bytes(held)
            continue
        plain = isinstance(held, str)
        text = held if plain else json.dumps(held, indent=1, ensure_ascii=False) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
    print(f"{peer.name}: {', '.join(made)}", file=sys.stderr)


sys.exit(main())
