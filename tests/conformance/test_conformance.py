"""The checks for any memory provider: ours passes them, and they can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from _conformance.endpoint import DIMENSION, Endpoint

from hermes_pgmemory import door
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.store import migrate

ROOT = Path(__file__).parents[2]


def check(provider: str, folder: Path, *more: str, **env: str) -> dict[str, Any]:
    """Run the checks in a process of their own; return each one's outcome."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "pytest", "conformance", "-q", "-n0"]
    command += [f"--provider={provider}", f"--report={report}", *more]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    found = json.loads(report.read_text())
    assert len(found["checks"]) > 50
    return {
        one["id"]: one["outcome"] if one["outcome"] == "passed" else one
        for one in found["checks"]
    } | {"exit": done.returncode}


def test_ours_passes_every_check(new_database: Callable[..., str], tmp_path: Path):
    dsn = new_database()
    model = EmbeddingModel(
        name="nomic-embed-text",
        dimension=DIMENSION,
        query_prefix="search_query: ",
        document_prefix="search_document: ",
    )
    migrate.apply(dsn, model)
    door.install(tmp_path)
    with Endpoint() as url:
        outcomes = check(
            "pgvector",
            tmp_path,
            CONFORMANCE_DSN=dsn,
            CONFORMANCE_EMBED_URL=url,
            CONFORMANCE_PLUGIN=str(HomePaths(tmp_path).door),
        )
    status = outcomes.pop("exit")
    assert {id_: one for id_, one in outcomes.items() if one != "passed"} == {}
    assert status == 0


DESERVED = [
    "load.fresh",
    "load.available",
    "load.settings",
    "load.backup",
    "tools.valid",
    "tools.early",
    "tools.names",
    "tools.unknown",
    "tools.wrong-arguments",
    "memory.duplicate",
    "memory.replace",
    "memory.order",
    "memory.remove",
    "memory.remove-nothing",
    "memory.wildcards",
    "memory.prefetch",
    "memory.prompt",
    "turns.twice",
    "turns.end-after",
    "turns.end-before",
    "turns.end-again",
    "turns.recalled-text",
    "turns.untouched",
    "apart.profiles-notes",
    "apart.profiles-turns",
    "apart.keys-notes",
    "apart.keys-turns",
    "apart.people",
    "apart.spoofed",
    "apart.contexts",
    "life.again",
    "life.abandoned",
    "life.shutdown",
    "life.uninitialized",
    "life.killed",
    "life.outage",
    "life.newer-host",
    "hostile.texts",
    "hostile.identities",
    "hostile.types",
    "silence.memory",
    "silence.turn-start",
    "silence.sync-turn",
]


def test_a_careless_provider_is_found_out(tmp_path: Path):
    adapter = Path(__file__).with_name("careless.toml")
    outcomes = check(str(adapter), tmp_path, "--patience=0.2")
    assert outcomes["exit"] == 1
    assert [id_ for id_ in DESERVED if outcomes[id_] == "passed"] == []
    assert outcomes["memory.add"] == "passed"


@pytest.mark.parametrize(
    ("adapter", "complaint"),
    [
        ("nobody", "no adapter"),
        ("pgvector", "set the environment variable CONFORMANCE_"),
    ],
)
def test_what_an_adapter_lacks_is_said(adapter: str, complaint: str):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "conformance", f"--provider={adapter}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert complaint in done.stderr
