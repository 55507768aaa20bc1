"""What was said: kept once, however often the host tells of it."""

from __future__ import annotations

import copy

import pytest
from conformance_kit.hosted import eventually
from conformance_kit.words import Fact, word

pytestmark = pytest.mark.turns


def heard(agent, fact):
    """Wait until the turn is recalled; return the results that hold it."""
    return eventually(lambda: fact.among(agent.turns(fact.topic)), bool)


def settled(agent):
    """Wait until what is said now is recalled: so is all that was before it."""
    last = Fact.new()
    agent.deliver(*last.said)
    agent.flush()
    heard(agent, last)


@pytest.mark.check("turns.kept", "must")
def test_kept(agent):
    """An exchange is recalled after its turn."""
    fact = Fact.new()
    agent.say(*fact.said)
    heard(agent, fact)


@pytest.mark.check("turns.without-transcript", "must")
def test_without_transcript(agent):
    """An exchange is kept where the host gives its two texts alone."""
    fact = Fact.new()
    agent.manager.sync_all(*fact.said, session_id=agent.session_id)
    heard(agent, fact)


@pytest.mark.check("turns.twice", "must")
def test_twice(agent):
    """An exchange said twice and told of at the session's end is not there thrice."""
    fact = Fact.new()
    agent.say(*fact.said)
    agent.say(*fact.said)
    agent.flush()
    agent.end_session()
    settled(agent)
    assert 1 <= len(heard(agent, fact)) <= 2


@pytest.mark.check("turns.end-after", "must")
def test_end_after(agent):
    """`on_session_end` doubles nothing that `sync_turn` brought."""
    facts = [Fact.new() for _ in range(3)]
    for fact in facts:
        agent.say(*fact.said)
    agent.flush()
    agent.end_session()
    settled(agent)
    assert [len(heard(agent, fact)) for fact in facts] == [1, 1, 1]


@pytest.mark.check("turns.end-before", "must")
def test_end_before(agent):
    """`on_session_end` may come before the last `sync_turn`, and doubles nothing."""
    fact = Fact.new()
    user, assistant = fact.said
    agent.messages += [
        {"role": "user", "content": user},
        {"role": "assistant", "content": assistant},
    ]
    agent.end_session()
    agent.deliver(user, assistant)
    agent.flush()
    settled(agent)
    assert len(heard(agent, fact)) == 1


@pytest.mark.check("turns.end-again", "must")
def test_end_again(start):
    """A session's end told again, by its next agent too, doubles nothing."""
    first = start()
    fact = Fact.new()
    first.say(*fact.said)
    first.flush()
    first.end_session()
    first.manager.on_session_switch(
        first.session_id, parent_session_id=first.session_id, reason="compression"
    )
    first.close()
    second = start(session=first.session_id)
    second.messages = copy.deepcopy(first.messages)
    second.end_session()
    settled(second)
    assert len(heard(second, fact)) == 1


@pytest.mark.check("turns.end-alone", "should")
def test_end_alone(agent):
    """A turn that only the session's end tells of is kept."""
    fact = Fact.new()
    user, assistant = fact.said
    agent.messages += [
        {"role": "user", "content": user},
        {"role": "assistant", "content": assistant},
    ]
    agent.end_session()
    heard(agent, fact)


@pytest.mark.check("turns.switch", "must")
def test_switch(agent):
    """What is said before and after a switch to a new session is kept."""
    before, after = Fact.new(), Fact.new()
    agent.say(*before.said)
    old, agent.session_id = agent.session_id, f"session-{word()}"
    agent.manager.commit_session_boundary_async(
        agent.messages, new_session_id=agent.session_id, parent_session_id=old
    )
    agent.messages = []
    agent.say(*after.said)
    heard(agent, before)
    heard(agent, after)


@pytest.mark.check("turns.recalled-text", "must")
def test_recalled_text(agent):
    """What was recalled into a request is not taken for something the user said."""
    fact, recalled = Fact.new(), Fact.new()
    agent.say(*fact.said, recalled=recalled.said[0])
    agent.flush()
    agent.end_session()
    settled(agent)
    heard(agent, fact)
    assert recalled.among(agent.turns(recalled.topic)) == []


@pytest.mark.check("turns.untouched", "must")
def test_untouched(agent):
    """The host's own messages are left as they are."""
    said = Fact.new().said
    agent.hold(*said, recalled="something")
    before = copy.deepcopy(agent.messages)
    agent.deliver(*said)
    agent.flush()
    agent.manager.on_pre_compress(agent.messages)
    agent.end_session()
    assert agent.messages == before


@pytest.mark.check("turns.parts", "must")
def test_parts(agent):
    """Transcripts with tool calls, pictures and empty contents do no harm."""
    fact = Fact.new()
    user, assistant = fact.said
    call = {"id": "c1", "function": {"name": "terminal", "arguments": "{}"}}
    agent.messages += [
        {"role": "user", "content": [{"type": "text", "text": "Look at this."}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "done", "tool_call_id": "c1", "name": "terminal"},
        {"role": "assistant", "content": ""},
    ]
    agent.say(user, assistant)
    agent.flush()
    agent.provider.on_session_end(agent.messages)
    heard(agent, fact)
