"""The writer's thread: what else goes wrong is no outage of writing, nor its end."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from hermes_pgmemory.batcher import Batcher, WriterPolicy
from hermes_pgmemory.breaker import CircuitBreaker
from hermes_pgmemory.codec import encode
from hermes_pgmemory.embed.unusable import UnusableEmbedder
from hermes_pgmemory.errors import DatabaseBusy, DatabaseUnavailable
from hermes_pgmemory.journal import Journal
from hermes_pgmemory.models import AddEntry, Target, Theme
from hermes_pgmemory.notices import BEGINS, Notices
from hermes_pgmemory.writer import Chore, Outage, Writer


def test_following_files_may_fail_and_holds_up_no_write(home, eventually, caplog):
    private = home.path / "pgvector" / "private-notes"
    private.mkdir(parents=True)  # as good as a file that somebody else owns
    file = home.path / "memories" / "MEMORY.md"
    file.write_text("written by hand")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    agent = home.agent(agent_identity="work")
    eventually(lambda: "following MEMORY.md and USER.md waits" in caplog.text)
    for number in range(3):
        agent.on_memory_write("add", "memory", f"note {number}", {})
        eventually(lambda: agent._engine.journal_depth == 0)
    assert agent._engine.writer.outage is None
    private.rmdir()
    eventually(lambda: "written by hand" in home.entries("work"))
    assert caplog.text.count("waits:") == 1
    assert "kept in the journal" not in caplog.text


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (DatabaseBusy("no answer"), ["tidying up waits: no answer"]),
        # An outage is told once, by the writer.
        (DatabaseUnavailable("no database"), []),
    ],
)
def test_a_chore_that_fails_is_not_tried_at_every_turn(failure, told, caplog):
    tries: list[int] = []

    def fail() -> float:
        tries.append(1)
        raise failure

    chore = Chore("tidying up", fail)
    waits = [chore.run() for _ in range(50)]
    assert len(tries) == 1
    assert all(0 < wait <= 1 for wait in waits)
    assert caplog.messages == told


@pytest.fixture
def start_writer(store, tmp_path):
    """Start a writer that cannot reach the database at first, with one write."""
    journal = Journal.claim(tmp_path / "journal", quota_bytes=1 << 20)
    note = AddEntry(
        theme=Theme("work"), target=Target.MEMORY, content="a", at=datetime.now(UTC)
    )
    journal.append([encode(note)])
    embedder = UnusableEmbedder("test", "not needed here")
    policy = WriterPolicy(embed_on_write=False)
    batcher = Batcher(store, embedder, CircuitBreaker(), policy)
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise DatabaseUnavailable("away")

    made: list[Writer] = []

    def start_writer(**listeners: Any) -> Writer:
        made.append(Writer(journal, batcher, before=look, **listeners))
        made[-1].start()
        return made[-1]

    yield start_writer
    for writer in made:
        ended = threading.Event()
        writer.stop(timeout_s=5, then=ended.set)
        assert ended.is_set()
    journal.close()


def test_whoever_hears_of_an_outage_may_fail(start_writer, eventually, caplog):
    def fail(_: object) -> None:
        raise RuntimeError("can't start new thread")

    writer = start_writer(when_outage=fail, when_over=fail)
    eventually(lambda: "writing again" in caplog.text)
    assert writer.flush(timeout_s=10)


def test_agents_hear_of_an_outage_as_soon_as_there_is_a_thread(
    tmp_path, monkeypatch, eventually
):
    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    journal = Journal.claim(tmp_path / "journal", quota_bytes=1 << 20)
    notices, heard = Notices(journal), []
    listener = notices.listen(heard.append, None)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        notices.began(Outage(0.0, "away"))
    notices.began(Outage(0.0, "still away"))
    eventually(lambda: heard == [f"{BEGINS} (still away)"])
    assert listener.knows
    journal.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_lets_the_rooms_be_closed(start_writer, eventually):
    class Death(BaseException):
        pass

    def die() -> None:
        raise Death

    writer = start_writer(when_idle=die)
    closed = threading.Event()
    thread = writer._thread
    eventually(lambda: not thread.is_alive())
    writer.stop(timeout_s=5, then=closed.set)
    assert closed.is_set()
