"""From `initialize` to `shutdown`, and to a death without one."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conformance_kit.hosted import (
    SOON_S,
    call,
    common,
    eventually,
    load_memory_provider,
    tell,
)
from conformance_kit.words import Fact, word

HERE = Path(__file__).parent
KILLED = "conformance_kit.killed"
MANY, MORE = 50, 10
"""Agents that come and are not shut down; what they may hold beyond the first."""


def held():
    """Count this process's threads and open files."""
    gc.collect()
    return threading.active_count() + len([*Path("/proc/self/fd").iterdir()])


@pytest.mark.notes
@pytest.mark.check("life.again", "must")
def test_again(start, home):
    """`initialize` called again on one provider leaks no threads and no files."""
    agent = start()
    agent.memory("add", content=Fact.new().note)
    agent.provider.initialize(f"session-{word()}", **common(home))
    agent.notes("anything")
    before = held()
    for _ in range(3):
        agent.provider.initialize(f"session-{word()}", **common(home))
        agent.notes("anything")
    eventually(held, lambda now: now < before + 3)
    fact = Fact.new()
    agent.memory("add", content=fact.note)
    eventually(lambda: fact.among(agent.notes(fact.topic)), bool)


@pytest.mark.check("life.abandoned", "must")
def test_abandoned(home, adapter, request):
    """Agents that nobody shuts down, as the API server's, leave nothing behind."""
    home.enter()
    key = {"platform": "api_server", "gateway_session_key": "team"}
    for number in range(MANY + 1):
        provider = load_memory_provider(adapter.name)
        request.addfinalizer(provider.shutdown)
        provider.initialize(f"api-{number}", **common(home) | key)
        if number == 0:
            # What all share may come with the first.
            before = held()
    more = held() - before
    assert more < MORE, f"{MANY} agents hold {more} threads and files"


@pytest.mark.check("life.shutdown", "must")
def test_shutdown(agent):
    """`shutdown` can be called twice, and each time is back within 5 s."""
    agent.say(*Fact.new().said)
    agent.flush()
    for _ in range(2):
        began = time.monotonic()
        agent.provider.shutdown()
        assert time.monotonic() - began < 5


@pytest.mark.check("life.uninitialized", "should")
def test_uninitialized(home, adapter):
    """Hooks are not raised from before `initialize`, which may have failed."""
    home.enter()
    every_hook(load_memory_provider(adapter.name))


@pytest.mark.check("life.late", "should")
def test_late(agent):
    """Hooks are not raised from after `shutdown`, as a late helper's result comes."""
    agent.provider.shutdown()
    every_hook(agent.provider)


def every_hook(provider):
    """Call every hook, as the manager would, without anything that catches."""
    user, assistant = Fact.new().said
    messages = [{"role": "user", "content": user}]
    assert isinstance(call(provider, "system_prompt_block"), str)
    call(provider, "on_turn_start", 1, user)
    assert isinstance(call(provider, "prefetch", user, session_id=""), str)
    call(provider, "sync_turn", user, assistant, session_id="s")
    call(provider, "queue_prefetch", user, session_id="s")
    tell(provider, "add", "memory", Fact.new().note, metadata={})
    call(provider, "on_delegation", "a task", "its result", child_session_id="c")
    assert isinstance(call(provider, "on_pre_compress", messages), str)
    call(provider, "on_session_switch", "s2", parent_session_id="s", reset=True)
    call(provider, "on_session_end", messages)
    call(provider, "on_session_end", [])
    provider.shutdown()


@pytest.mark.check("life.newer-host", "should")
def test_newer_host(home, adapter):
    """Hooks take arguments that newer hosts pass by name."""
    home.enter()
    provider = load_memory_provider(adapter.name)
    news = {"session_title_source": "model", "cwd": "/", "parent_session_id": "p"}
    provider.initialize(f"session-{word()}", **common(home) | news)
    try:
        call(
            provider, "on_session_switch", "s2", parent_session_id="s", reason="resume"
        )
        news = {"previous_content": "what was there", "new_key": "anything"}
        tell(provider, "add", "memory", Fact.new().note, metadata=news)
    finally:
        provider.shutdown()


def die(adapter, home, facts):
    """Let another process write *facts*, and kill it when its hooks have returned."""
    words = [word for fact in facts for word in (fact.topic, fact.proof)]
    done = subprocess.run(
        [sys.executable, "-m", KILLED, adapter.path, home.path, *words],
        cwd=HERE,
        env={**os.environ, "HERMES_HOME": str(home.path)},
        capture_output=True,
        text=True,
        timeout=SOON_S * 3,
        check=False,
    )
    assert done.returncode == -9, done.stderr


def survived(start, home, facts):
    """Ask a new agent for what the killed one had written."""
    note, turn = facts
    agent = start(at=home)
    if agent.adapter.notes:
        eventually(lambda: note.among(agent.notes(note.topic)), bool)
    if agent.adapter.turns:
        eventually(lambda: turn.among(agent.turns(turn.topic)), bool)


@pytest.mark.check("life.killed", "should")
def test_killed(adapter, make_home, start):
    """`kill -9` right after a hook has returned loses nothing of what it was told."""
    home, facts = make_home(), [Fact.new(), Fact.new()]
    die(adapter, home, facts)
    survived(start, home, facts)


@pytest.mark.silent
@pytest.mark.check("life.outage", "should")
def test_outage(adapter, make_home, start):
    """`kill -9` while the network is silent loses nothing either."""
    home, facts = make_home(silent=True), [Fact.new(), Fact.new()]
    die(adapter, home, facts)
    home.configure(adapter, silent=False)
    survived(start, home, facts)
