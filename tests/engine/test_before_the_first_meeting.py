"""A home whose database is away when its first private chat begins."""

from __future__ import annotations

import json

import pytest

from hermes_pgmemory import subjects
from hermes_pgmemory.paths import HomePaths

KEY = "agent:main:telegram:dm:15550100301"
NOTE = "Greta collects lighthouse postcards."
SAID = "My sister paints the lighthouse on Sundays, every week."
HISTORY = [{"role": "user", "content": SAID}, {"role": "assistant", "content": "Nice"}]


def chat(home, **names):
    return home.agent(KEY, gateway_session_key=KEY, **names)


def recalled(agent, tool: str) -> list[str]:
    answer = json.loads(agent.handle_tool_call(tool, {"query": "lighthouse"}))
    return [row["content"] for row in answer["results"]]


@pytest.fixture
def talked(home, outage):
    """A private chat that said all it had to say before the database was met."""
    outage.begin()
    agent = chat(home, parent_session_id=f"before {KEY}")
    agent.on_memory_write("add", "user", NOTE, {"task_id": KEY})
    agent.sync_turn(SAID, "Nice", messages=HISTORY)
    return agent


def test_the_same_agent_recalls_what_it_said_then(home, outage, talked, eventually):
    for path in HomePaths(home.path).state.rglob("*"):
        assert path.is_dir() or b"15550100301" not in path.read_bytes()
    outage.end()
    eventually(lambda: len(home.turns("whatsapp-dm")) == 1)
    talked._engine.recall._library_breaker.reset()
    assert recalled(talked, "recall_memory") == [NOTE]
    assert recalled(talked, "recall_conversation") == [SAID]
    # The whole transcript, told under the ids that are known by now, adds nothing.
    talked.on_session_end(HISTORY)
    talked.on_memory_write("add", "user", "the last", {})
    eventually(lambda: len(home.entries("whatsapp-dm")) == 2)
    assert len(home.turns("whatsapp-dm")) == 1


def test_what_a_dead_process_left_belongs_to_its_contact(
    home, outage, talked, eventually, monkeypatch
):
    talked.shutdown()
    monkeypatch.setattr(subjects, "_keys", {})  # another process has its own
    outage.end()
    later = chat(home)
    eventually(lambda: home.entries("whatsapp-dm"))
    assert recalled(later, "recall_memory") == [NOTE]
    told = home.rows("SELECT DISTINCT subject, session_id FROM conversations")
    speaker = later._session.speaker
    assert told == [(speaker.subject, speaker.session_id)]
    (stored,) = home.rows(
        "SELECT c::text || e::text FROM conversations c, memory_entries e"
    )
    assert "sealed-" not in stored[0]


def test_what_nobody_can_open_is_put_aside(
    home, outage, talked, eventually, monkeypatch
):
    talked.shutdown()
    (HomePaths(home.path).state / subjects.STAND_IN_FILE).unlink()
    monkeypatch.setattr(subjects, "_keys", {})
    outage.end()
    agent = chat(home)
    eventually(lambda: agent._engine.journal_depth == 0)
    agent.on_memory_write("add", "user", "new", {})
    eventually(lambda: home.entries("whatsapp-dm") == ["new"])
