"""What the built-in memory tool writes, mirrored."""

from __future__ import annotations

from itertools import pairwise
from threading import Thread

import pytest
from conformance_kit.hosted import eventually
from conformance_kit.words import Fact, word

pytestmark = pytest.mark.notes


def kept(agent, fact):
    """Wait until *fact* is recalled; return the results that hold it."""
    return eventually(lambda: fact.among(agent.notes(fact.topic)), bool)


def gone(agent, fact):
    """Wait until *fact* is not recalled."""
    return eventually(
        lambda: fact.among(agent.notes(fact.topic)), lambda left: not left
    )


def settled(agent):
    """Wait until what is written now is recalled: so is all that was before it."""
    last = Fact.new()
    assert agent.memory("add", content=last.note)["success"]
    kept(agent, last)


@pytest.mark.check("memory.add", "must")
def test_add(agent):
    """What the memory tool adds is recalled, word for word."""
    fact = Fact.new()
    agent.memory("add", content=fact.note)
    assert fact.note in kept(agent, fact)


@pytest.mark.check("memory.user", "must")
def test_user(agent):
    """What it adds about the user is recalled as well."""
    fact = Fact.new()
    agent.memory("add", target="user", content=fact.note)
    kept(agent, fact)


@pytest.mark.check("memory.duplicate", "must")
def test_duplicate(agent):
    """An entry added twice, which the host tells of twice, is kept once."""
    fact = Fact.new()
    for _ in range(2):
        agent.memory("add", content=fact.note)
    settled(agent)
    assert len(kept(agent, fact)) == 1


@pytest.mark.check("memory.replace", "must")
def test_replace(agent):
    """An entry replaced by a part of its text is recalled as it is now, and only so."""
    topic = word()
    old, new = Fact.new(topic), Fact.new(topic)
    agent.memory("add", content=old.note)
    agent.memory("replace", old_text=old.proof, content=new.note)
    kept(agent, new)
    gone(agent, old)


@pytest.mark.check("memory.order", "must")
def test_order(agent):
    """Writes made one right after the other take effect in that order."""
    topic = word()
    versions = [Fact.new(topic) for _ in range(4)]
    agent.memory("add", content=versions[0].note)
    for old, new in pairwise(versions):
        agent.memory("replace", old_text=old.proof, content=new.note)
    settled(agent)
    kept(agent, versions[-1])
    for old in versions[:-1]:
        gone(agent, old)


@pytest.mark.check("memory.remove", "must")
def test_remove(agent):
    """An entry removed by a part of its text is gone, and no other one is."""
    topic = word()
    first, second, third = (Fact.new(topic) for _ in range(3))
    for fact in (first, second, third):
        agent.memory("add", content=fact.note)
    agent.memory("remove", old_text=second.proof)
    settled(agent)
    gone(agent, second)
    kept(agent, first)
    kept(agent, third)


@pytest.mark.check("memory.remove-nothing", "must")
def test_remove_nothing(agent):
    """A removal that names no entry removes none."""
    fact = Fact.new()
    agent.memory("add", content=fact.note)
    # The host has not refused it: it was another agent's entry a moment ago.
    agent.manager.on_memory_write(
        "remove", "memory", "", {"old_text": f"{fact.topic} {word()}"}
    )
    agent.manager.on_memory_write("remove", "memory", "", {})
    settled(agent)
    kept(agent, fact)


@pytest.mark.check("memory.wildcards", "must")
def test_wildcards(agent):
    """`%` and `_` in the text to replace or remove mean themselves."""
    fact = Fact.new()
    agent.memory("add", content=fact.note)
    for text in ("%", "_", fact.proof[:-1] + "_", f"%{fact.proof}%"):
        agent.manager.on_memory_write("remove", "memory", "", {"old_text": text})
    settled(agent)
    kept(agent, fact)


@pytest.mark.check("memory.batch", "must")
def test_batch(agent):
    """A batch of operations takes effect in its order."""
    topic = word()
    first, second, third = (Fact.new(topic) for _ in range(3))
    agent.memory("add", content=first.note)
    done = agent.batch(
        {"action": "add", "content": second.note},
        {"action": "remove", "old_text": first.proof},
        {"action": "replace", "old_text": second.proof, "content": third.note},
    )
    assert done["success"], done
    kept(agent, third)
    gone(agent, first)
    gone(agent, second)


@pytest.mark.check("memory.refused", "must")
def test_refused(agent):
    """What the memory tool refused is not remembered."""
    topic = word()
    fact, other = Fact.new(topic), Fact.new(topic)
    agent.memory("add", content=fact.note)
    done = agent.memory("replace", old_text=word(), content=other.note)
    assert not done["success"]
    settled(agent)
    kept(agent, fact)
    assert other.among(agent.notes(topic)) == []


@pytest.mark.check("memory.together", "must")
def test_together(start):
    """Agents that write at the same time lose nothing."""
    topic = word()
    agents = [start() for _ in range(4)]
    facts = [[Fact.new(topic) for _ in range(4)] for _ in agents]

    def write(agent, facts):
        for fact in facts:
            agent.memory("add", content=fact.note)

    threads = [
        Thread(target=write, args=one) for one in zip(agents, facts, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for fact in (fact for some in facts for fact in some):
        eventually(lambda fact=fact: fact.among(agents[0].notes(topic)), bool)


@pytest.mark.check("memory.prefetch", "should")
def test_prefetch(agent):
    """A note that bears on the question asked is put before the model unasked."""
    fact = Fact.new()
    agent.memory("add", content=fact.note)
    kept(agent, fact)
    question = f"What do I ask for at the {fact.topic} supplier, who ships by rail?"
    agent.manager.queue_prefetch_all(question)
    agent.flush()
    eventually(
        lambda: agent.manager.prefetch_all(question), lambda said: fact.proof in said
    )


@pytest.mark.check("memory.prompt", "must")
def test_prompt(agent):
    """`system_prompt_block` stays the same, byte for byte, while a session writes."""
    before = agent.provider.system_prompt_block()
    settled(agent)
    agent.say(*Fact.new().said)
    agent.flush()
    assert agent.provider.system_prompt_block() == before
