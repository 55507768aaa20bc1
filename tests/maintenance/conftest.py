from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from maintenance_kit import Endpoint, Memory

from command_kit import Ran
from hermes_pgmemory import cli
from hermes_pgmemory.store import Store


@pytest.fixture(autouse=True)
def nothing_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HERMES_MANAGED_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("HERMES_HOME", "PGMEMORY_DSN", "PGMEMORY_DSN_READ"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def memory(store: Store, dsn: str) -> Memory:
    return Memory(store, dsn)


@pytest.fixture
def configure(tmp_path: Path) -> Callable[..., None]:
    """Write the settings of the home that `run` acts on."""

    def configure(**settings: Any) -> None:
        config = {"plugins": {"pgvector": settings}}
        (tmp_path / "config.yaml").write_text(json.dumps(config))  # JSON is YAML

    return configure


@pytest.fixture
def run(
    tmp_path: Path,
    dsn: str,
    configure: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Ran]:
    """Run `hermes-pgvector VERB ...` in this process, on the test's database."""
    configure(dsn=dsn)

    def run(*words: str) -> Ran:
        capsys.readouterr()
        try:
            status = cli.main([*words, "--home", str(tmp_path)])
        except SystemExit as exc:
            status = int(exc.code or 0)
        captured = capsys.readouterr()
        return Ran(int(status), captured.out, captured.err)

    return run


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
