"""Who sees what."""

from __future__ import annotations

import pytest
from conformance_kit.hosted import eventually
from conformance_kit.words import Fact, word


def dm(person):
    """Return what the gateway says of a private chat."""
    return {
        "platform": "telegram",
        "user_id": person,
        "chat_id": person,
        "chat_type": "dm",
        "gateway_session_key": f"agent:main:telegram:dm:{person}",
    }


def api(key):
    """Return what the API server says of a caller."""
    return {"platform": "api_server", "gateway_session_key": key}


def notes_apart(one, other):
    """Both write; each recalls its own and not the other's."""
    topic = word()
    mine, theirs = Fact.new(topic), Fact.new(topic)
    one.memory("add", content=mine.note)
    other.memory("add", content=theirs.note)
    eventually(lambda: mine.among(one.notes(topic)), bool)
    eventually(lambda: theirs.among(other.notes(topic)), bool)
    assert theirs.among(one.notes(topic)) == []
    assert mine.among(other.notes(topic)) == []


def turns_apart(one, other):
    """Both speak; each recalls its own and not the other's."""
    topic = word()
    mine, theirs = Fact.new(topic), Fact.new(topic)
    one.say(*mine.said)
    other.say(*theirs.said)
    eventually(lambda: mine.among(one.turns(topic)), bool)
    eventually(lambda: theirs.among(other.turns(topic)), bool)
    assert theirs.among(one.turns(topic)) == []
    assert mine.among(other.turns(topic)) == []


@pytest.fixture
def profiles(make_home, start):
    """Agents of two profiles."""
    homes = [make_home(identity=word()) for _ in range(2)]
    return [start(at=home) for home in homes]


@pytest.mark.notes
@pytest.mark.check("apart.profiles-notes", "must")
def test_profiles_notes(profiles):
    """Two profiles do not see each other's notes."""
    notes_apart(*profiles)


@pytest.mark.turns
@pytest.mark.check("apart.profiles-turns", "must")
def test_profiles_turns(profiles):
    """Two profiles do not see each other's conversations."""
    turns_apart(*profiles)


@pytest.mark.notes
@pytest.mark.check("apart.keys-notes", "should")
def test_keys_notes(start):
    """Callers with different `X-Hermes-Session-Key` do not see each other's notes."""
    notes_apart(start(**api(f"team-{word()}")), start(**api(f"team-{word()}")))


@pytest.mark.turns
@pytest.mark.check("apart.keys-turns", "should")
def test_keys_turns(start):
    """Callers with different session keys do not see each other's turns."""
    turns_apart(start(**api(f"team-{word()}")), start(**api(f"team-{word()}")))


@pytest.mark.turns
@pytest.mark.check("apart.one-session-id", "should")
def test_one_session_id(start):
    """Callers with different keys and one session id see only their own turns."""
    one, other = (start(session="api-1", **api(f"team-{word()}")) for _ in range(2))
    turns_apart(one, other)


@pytest.mark.turns
@pytest.mark.check("apart.people", "must")
def test_people(start):
    """Two people in private chats do not see each other's conversations."""
    turns_apart(start(**dm("15550100")), start(**dm("15550199")))


@pytest.mark.turns
@pytest.mark.check("apart.spoofed", "should")
def test_spoofed(start):
    """An API caller that sends a private chat's key does not see that chat."""
    person = dm("15550101")
    fact = Fact.new()
    chat = start(**person)
    chat.say(*fact.said)
    eventually(lambda: fact.among(chat.turns(fact.topic)), bool)
    stranger = start(**api(person["gateway_session_key"]))
    assert fact.among(stranger.turns(fact.topic)) == []


@pytest.mark.notes
@pytest.mark.check("together.sessions", "must")
def test_sessions(start):
    """What one session of an identity writes, its next session recalls."""
    fact = Fact.new()
    first = start()
    first.memory("add", content=fact.note)
    first.close()
    second = start()
    eventually(lambda: fact.among(second.notes(fact.topic)), bool)


@pytest.mark.notes
@pytest.mark.check("apart.contexts", "should")
def test_contexts(start):
    """A helper's agent (`agent_context: subagent`) writes nothing of its own."""
    fact, after = Fact.new(), Fact.new()
    helper, main = start(agent_context="subagent"), start()
    helper.manager.on_memory_write("add", "memory", fact.note, {})
    main.memory("add", content=after.note)
    eventually(lambda: after.among(main.notes(after.topic)), bool)
    assert fact.among(main.notes(fact.topic)) == []
