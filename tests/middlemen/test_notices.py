"""An outage is told: to agents, in the log, by `status` and beside what is found."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from time import time

import psycopg
import pytest
from middlemen_kit import Home, Pooler, add, contents, eventually, recall
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from command_kit import Ran


class Screen:
    """What the host shows its user."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.statuses: list[str] = []

    def callbacks(self) -> dict[str, Callable[[str], None]]:
        return {
            "warning_callback": self.warnings.append,
            "status_callback": self.statuses.append,
        }

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.warnings), len(self.statuses)


@pytest.fixture
def direct(home: Home, pooler: Pooler, dsn_of: Callable[[int], str]) -> str:
    """A database that the home's agents reach by way of the pooler."""
    direct = dsn_of(384)
    home.configure(dsn=pooler.dsn(direct), embed_on_write=False)
    return direct


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets a callback that hangs go on, at the latest when the test is over."""
    release = threading.Event()
    yield release
    release.set()


def test_each_agent_hears_of_an_outage_once_and_of_its_end_once(
    home: Home, pooler: Pooler, direct: str
):
    screens = [Screen() for _ in range(3)]
    agents = [home.agent("sales", **screen.callbacks()) for screen in screens[:2]]
    home.agent("sales")  # has no callbacks, like those of a gateway
    add(agents[0], "before")
    eventually(lambda: contents(direct) == ["before"])
    for rounds in (1, 2):
        pooler.kill()
        for number in range(5):
            add(agents[0], f"round {rounds}, note {number}")
        eventually(lambda n=rounds: {s.counts for s in screens[:2]} == {(n, n - 1)})
        if rounds == 2:
            home.agent("sales", **screens[2].callbacks())  # in the middle of it
            eventually(lambda: screens[2].counts == (1, 0))
        pooler.start()
        eventually(lambda n=rounds: len(contents(direct)) == 1 + 5 * n)
        eventually(lambda n=rounds: {s.counts for s in screens[:2]} == {(n, n)})
    eventually(lambda: screens[2].counts == (1, 1))
    for screen in screens:
        assert "wait on this host" in screen.warnings[0]
        assert "none was lost" in screen.statuses[0]


def test_a_callback_that_raises_or_hangs_holds_up_nobody(
    home: Home, pooler: Pooler, direct: str, release: threading.Event
):
    def fail(_: str) -> None:
        raise RuntimeError("the terminal is gone")

    screen = Screen()
    failing = home.agent("sales", warning_callback=fail, status_callback=fail)
    home.agent("sales", **screen.callbacks())
    add(failing, "before")
    eventually(lambda: contents(direct) == ["before"])
    pooler.kill()
    add(failing, "during")
    eventually(lambda: screen.counts == (1, 0))
    hanging: list[str] = []

    def hang(line: str) -> None:
        hanging.append(line)
        release.wait()

    home.agent("sales", warning_callback=hang)
    eventually(lambda: hanging)
    pooler.start()
    eventually(lambda: contents(direct) == ["before", "during"])
    release.set()
    eventually(lambda: screen.counts == (1, 1))


def test_the_log_says_when_it_begins_and_how_many_writes_were_kept(
    home: Home, pooler: Pooler, direct: str, caplog: pytest.LogCaptureFixture
):
    agent = home.agent("sales")
    add(agent, "before")
    eventually(lambda: contents(direct) == ["before"])
    with caplog.at_level(logging.WARNING, "hermes_pgmemory"):
        caplog.clear()
        pooler.kill()
        for number in range(7):
            add(agent, f"note {number}")
        eventually(lambda: agent._engine.writer.outage)
        pooler.start()
        eventually(lambda: agent._engine.writer.outage is None)
    # What else an idle agent notices meanwhile is not about the outage.
    told = [record for record in caplog.records if record.module == "writer"]
    begins, ends = [record.getMessage() for record in told]
    assert begins.startswith("writes are kept in the journal: no database: ")
    assert ends.startswith("writing again after ")
    assert ends.endswith("; 7 writes were kept, none was lost")


def test_status_says_since_when_and_why(
    home: Home, pooler: Pooler, direct: str, run: Callable[..., Ran]
):
    def journal() -> dict:
        return run("status", "--json").data["parts"]["journal"]

    agent = home.agent("sales")
    add(agent, "before")
    eventually(lambda: contents(direct) == ["before"])
    assert journal()["outage"] is None
    pooler.kill()
    began = time()
    add(agent, "during")
    outage = eventually(lambda: journal()["outage"])
    assert "no database" in outage["reason"]
    since = datetime.fromisoformat(outage["since"]).timestamp()
    assert began - 2 < since < time() + 1
    assert journal()["state"] == "unavailable"
    assert outage["reason"] in journal()["detail"]
    pooler.start()
    eventually(lambda: journal()["state"] == "ok" and journal()["outage"] is None)


def test_a_tool_says_what_is_missing_beside_what_it_finds(
    home: Home, direct: str, server: str
):
    agent = home.agent("sales")
    add(agent, "The printer is on floor 2.")
    eventually(lambda: contents(direct))
    name = sql.Identifier(conninfo_to_dict(direct)["dbname"])
    with psycopg.connect(server, autocommit=True) as admin:
        read_only = "ALTER DATABASE {} SET default_transaction_read_only = on"
        admin.execute(sql.SQL(read_only).format(name))
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            [conninfo_to_dict(direct)["dbname"]],
        )
    add(agent, "The scanner is on floor 3.")
    eventually(lambda: agent._engine.writer.outage)
    found, degraded = eventually(
        lambda: recall(agent, "floor") if recall(agent, "floor")[0] else None
    )
    assert found == ["The printer is on floor 2."]
    assert "the last 1 writes are not searchable yet" in degraded
