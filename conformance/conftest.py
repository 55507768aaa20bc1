"""Options, fixtures and the report: `pytest conformance --provider=NAME`."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from conformance_kit.adapter import Adapter, Unfit, load
from conformance_kit.home import Home
from conformance_kit.report import Report
from conformance_kit.words import word

HERE = Path(__file__).parent
RAN = pytest.StashKey[Report]()
ADAPTER = pytest.StashKey[Adapter]()
SILENT = pytest.StashKey[socket.socket]()

LIMIT = 3
"""How many times `--patience` a check may take in all."""

# The checks import the host, which must not find the user's own home.
NOWHERE = Path(tempfile.mkdtemp(prefix="conformance-"))
os.environ.update(HOME=str(NOWHERE), HERMES_HOME=str(NOWHERE / "hermes"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the command line name the provider and the report."""
    group = parser.getgroup("conformance")
    group.addoption("--provider", help="an adapter: a .toml file, or one of providers/")
    group.addoption("--report", metavar="FILE", help="write the results there, as JSON")
    group.addoption(
        "--patience",
        metavar="SECONDS",
        default="20",
        help="how soon what was written must be recalled",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Read the adapter, and open the port that never answers."""
    name = config.getoption("provider")
    if not name:
        raise pytest.UsageError("give --provider=NAME or --provider=FILE.toml")
    if config.inipath != HERE / "pytest.ini":
        # As a word of its own, FILE.toml looks like one more path to collect from.
        raise pytest.UsageError(f"run pytest {HERE} --provider=FILE.toml, with the =")
    os.environ["CONFORMANCE_PATIENCE_S"] = config.getoption("patience")
    # Connections wait in the queue for an answer that never comes.
    silent = config.stash[SILENT] = socket.create_server(("127.0.0.1", 0), backlog=512)
    os.environ["SILENT_PORT"] = str(silent.getsockname()[1])
    try:
        adapter = load(name, silent.getsockname()[1])
    except Unfit as exc:
        raise pytest.UsageError(str(exc)) from None
    config.stash[ADAPTER] = adapter
    config.stash[RAN] = Report(adapter)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the report, and close the port."""
    if RAN in config.stash and (path := config.getoption("report")):
        config.stash[RAN].write(Path(path))
    if SILENT in config.stash:
        config.stash[SILENT].close()
    shutil.rmtree(NOWHERE, ignore_errors=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what the provider does not offer."""
    adapter = item.config.stash[ADAPTER]
    for mark, offered in (
        ("notes", adapter.notes),
        ("turns", adapter.turns),
        ("silent", adapter.silent),
    ):
        if item.get_closest_marker(mark) and offered is None:
            pytest.skip(f"the adapter has no [{mark}]")


class TooLong(BaseException):
    """Not for anybody to catch: providers catch every Exception."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Give up a check that takes too long, whatever the provider is at."""
    limit_s = LIMIT * float(item.config.getoption("patience"))

    def give_up(*_: object) -> None:
        raise TooLong(f"not done after {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:
    """Note the outcome; a `should` that fails does not fail the run."""
    made: pytest.TestReport = yield
    mark = item.get_closest_marker("check")
    assert mark is not None, f"{item.nodeid} is no check"
    item.config.stash[RAN].note(item, made, *mark.args)
    if made.failed and mark.args[1] == "should":
        made.outcome = "skipped"
        made.wasxfail = "should: " + item.config.stash[RAN].why(mark.args[0])
    return made


@pytest.fixture(scope="session")
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """The provider under test."""
    return request.config.stash[ADAPTER]


@pytest.fixture(scope="session")
def make_home(
    adapter: Adapter, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Home]:
    """Make homes with the provider in them."""

    def make_home(**how: Any) -> Home:
        folder = tmp_path_factory.mktemp("hermes")
        return Home.make(adapter, folder / "home", **how)

    return make_home


@pytest.fixture(scope="session")
def home(make_home: Callable[..., Home]) -> Home:
    """The home that most checks share; each has words of its own."""
    return make_home()


@pytest.fixture
def start(adapter: Adapter, home: Home) -> Iterator[Callable[..., Any]]:
    """Build agents; all are shut down in the end."""
    from conformance_kit.hosted import Agent  # noqa: PLC0415 - slow

    agents: list[Agent] = []

    def start(*, at: Home = home, session: str = "", **who: Any) -> Agent:
        agents.append(Agent(adapter, at, session or f"session-{word()}", **who))
        return agents[-1]

    yield start
    for agent in agents:
        agent.manager.shutdown_all()


@pytest.fixture
def agent(start: Callable[..., Any]) -> Any:
    """One agent of the command line."""
    return start()


@pytest.fixture
def provider(agent: Any) -> Any:
    """The provider itself, initialized: nothing catches what it raises."""
    return agent.provider


@pytest.fixture(scope="session")
def silent_home(make_home: Callable[..., Home]) -> Home:
    """A home whose provider talks to a network that never answers."""
    return make_home(silent=True)
