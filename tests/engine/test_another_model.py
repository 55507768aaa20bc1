"""The database is moved to another model while agents run."""

from __future__ import annotations

import logging

import pytest

# The kit of this folder: pytest has loaded it already, under this name.
from hermes_pgmemory import cli, housekeeping, model_watch

ROWS = "SELECT content, embedding IS NOT NULL, model_id FROM conversations ORDER BY id"
LONG = "about the harbour, the ships and the long way home, as it was told"


@pytest.fixture
def home(home, dsn, endpoint, monkeypatch):
    """A home on a database of model `test` that looks often which one is active."""
    monkeypatch.setattr(model_watch, "AGAIN_S", 0.1)
    monkeypatch.setattr(housekeeping, "ADOPT_EVERY_S", 0.2)
    home.dsn = dsn
    home.configure(embed_url=endpoint.url, embed_model="test", bulk_sync_on_init=False)
    return home


def move(home, *words):
    assert cli.main(["reembed", "--execute", "--home", str(home.path), *words]) == 0


def embedded(home):
    return [has for _, has, _ in home.rows(ROWS)]


def test_an_agent_that_waits_for_it_notices_without_a_restart(
    home, endpoint, eventually, caplog
):
    home.configure(embed_url=endpoint.url, embed_model="next", bulk_sync_on_init=False)
    with caplog.at_level(logging.WARNING, "hermes_pgmemory"):
        agent = home.agent()
        agent.sync_turn(f"one {LONG}", f"two {LONG}")
        eventually(lambda: embedded(home) == [False, False])
        move(home)
        agent.sync_turn(f"three {LONG}", f"four {LONG}")
        eventually(lambda: embedded(home) == [True] * 4)
    warned = [record.getMessage() for record in caplog.records]
    assert sum("the configuration says next" in line for line in warned) == 1
    assert sum("are next's now" in line for line in warned) == 1
    assert len({model for *_, model in home.rows(ROWS)}) == 1


def test_an_agent_of_the_old_model_writes_no_vector_any_more(home, eventually, caplog):
    with caplog.at_level(logging.WARNING, "hermes_pgmemory"):
        agent = home.agent()
        agent.sync_turn(f"one {LONG}", f"two {LONG}")
        eventually(lambda: embedded(home) == [True, True])
        move(home, "--to", "next")
        agent.sync_turn(f"three {LONG}", f"four {LONG}")
        eventually(lambda: embedded(home) == [True, True, False, False])
        found = agent.handle_tool_call("recall_conversation", {"query": "the harbour"})
    assert "three" in found
    warned = [record.getMessage() for record in caplog.records]
    assert any("come from next, the configuration says test" in one for one in warned)


def test_an_agent_that_only_recalls_notices(home, eventually, caplog):
    agent = home.agent()
    agent.sync_turn(f"one {LONG}", f"two {LONG}")
    eventually(lambda: embedded(home) == [True, True])
    move(home, "--to", "next")
    with caplog.at_level(logging.WARNING, "hermes_pgmemory"):

        def noticed():
            agent.handle_tool_call("recall_conversation", {"query": "the harbour"})
            return any("come from next" in r.getMessage() for r in caplog.records)

        eventually(noticed)


def test_what_is_embedded_later_is_what_would_have_been_embedded_at_once(
    home, endpoint, eventually
):
    agent = home.agent()
    for n in range(3):
        agent.sync_turn(f"question {n} {LONG * 9}", f"answer {n} {LONG}")
    eventually(lambda: embedded(home) == [True] * 6)
    at_once = sorted(text for batch in endpoint.batches for text in batch)
    endpoint.batches.clear()
    home.rows("UPDATE conversations SET embedding = NULL, model_id = NULL RETURNING 1")
    assert cli.main(["backfill", "--home", str(home.path)]) == 0
    later = sorted(text for batch in endpoint.batches for text in batch)
    assert [text for text in later if text != "hello"] == at_once
    assert sum("\n" in text for text in later) == 5
