"""One home and one server for each module; connections as the tests want them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

sys.path.insert(0, str(Path(__file__).parent))

from mcp_kit import Client, Served, by_http, by_stdio

from hermes_pgmemory import engines

Connect = Callable[[str], Client]


@pytest.fixture(scope="module")
def dsn(new_template: Callable[..., str], local_template: str) -> str:
    """A database for the local model, which the module's tests share."""
    return new_template(template=local_template)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, dsn: str) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    config = {"plugins": {"pgvector": {"dsn": dsn}}}
    (home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    yield home
    engines.close_all()


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    """An event loop beside the tests, in which clients live."""
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Served]:
    served = Served(home, "--token-env", "MEMORY_TOKEN")
    yield served
    assert served.end() == 0


@pytest.fixture(scope="module")
def over_http(portal: BlockingPortal, served: Served) -> Iterator[Connect]:
    """Connect to the module's server under a theme."""
    with ExitStack() as stack:
        yield lambda theme: Client(
            portal,
            stack.enter_context(
                portal.wrap_async_context_manager(by_http(served.url, theme))
            ),
        )


@pytest.fixture(scope="module")
def over_stdio(portal: BlockingPortal, home: Path) -> Iterator[Connect]:
    """Start a server of one's own for a theme."""
    with ExitStack() as stack:
        yield lambda theme: Client(
            portal,
            stack.enter_context(
                portal.wrap_async_context_manager(by_stdio(home, theme))
            ),
        )
