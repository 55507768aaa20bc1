"""A network that takes connections and never answers: what the agent waits for."""

from __future__ import annotations

import time

import pytest
from conformance_kit.hosted import Agent, call, common
from conformance_kit.words import Fact

pytestmark = pytest.mark.silent
HOOK_S, INITIALIZE_S, PREFETCH_S, SHUTDOWN_S = 0.5, 3.0, 8.0, 5.0
"""The last two are the host's own; the first two are what a person would notice."""


@pytest.fixture(scope="module")
def cut_off(adapter, silent_home):
    """An agent whose provider gets no answer."""
    agent = Agent(adapter, silent_home, "cut-off")
    yield agent
    agent.provider.shutdown()


def seconds(call, *args, **kwargs):
    """Return how long a call takes."""
    began = time.monotonic()
    call(*args, **kwargs)
    return time.monotonic() - began


@pytest.mark.check("silence.initialize", "should")
def test_initialize(cut_off, silent_home):
    """An agent starts within 3 s."""
    again = seconds(cut_off.provider.initialize, "again", **common(silent_home))
    assert again < INITIALIZE_S


@pytest.mark.check("silence.memory", "must")
def test_memory(cut_off):
    """`on_memory_write`, for which the turn waits, returns within 0.5 s."""
    note = Fact.new().note
    hook = cut_off.provider.on_memory_write
    assert seconds(hook, "add", "memory", note) < HOOK_S


@pytest.mark.check("silence.turn-start", "must")
def test_turn_start(cut_off):
    """`on_turn_start`, for which the turn waits, returns within 0.5 s."""
    assert seconds(call, cut_off.provider, "on_turn_start", 1, "hello") < HOOK_S


@pytest.mark.check("silence.prompt", "must")
def test_prompt(cut_off):
    """`system_prompt_block`, for which the turn waits, returns within 0.5 s."""
    assert seconds(cut_off.provider.system_prompt_block) < HOOK_S


@pytest.mark.check("silence.sync-turn", "should")
def test_sync_turn(cut_off):
    """`sync_turn` returns within 0.5 s, so that turns do not pile up behind it."""
    user, assistant = Fact.new().said
    hook = cut_off.provider.sync_turn
    assert seconds(hook, user, assistant, session_id="s") < HOOK_S


@pytest.mark.check("silence.prefetch", "must")
def test_prefetch(cut_off):
    """`prefetch` answers within the 8 s after which the host gives it up."""
    assert seconds(cut_off.provider.prefetch, "what do you know?") < PREFETCH_S


@pytest.mark.check("silence.tool", "should")
def test_tool(cut_off, adapter):
    """A recall tool, for which the turn waits, answers within 8 s."""
    recall = adapter.notes or adapter.turns
    arguments = {**recall.arguments, recall.query: "what do you know?"}
    tool = cut_off.provider.handle_tool_call
    assert seconds(tool, recall.tool, arguments) < PREFETCH_S


@pytest.mark.check("silence.shutdown", "must")
def test_shutdown(cut_off):
    """`shutdown` is back within 5 s, with writes that could not be delivered."""
    user, assistant = Fact.new().said
    cut_off.provider.sync_turn(user, assistant, session_id="s")
    cut_off.provider.on_memory_write("add", "memory", Fact.new().note)
    assert seconds(cut_off.provider.shutdown) < SHUTDOWN_S


@pytest.mark.check("silence.early-shutdown", "must")
def test_early_shutdown(make_home, adapter):
    """`shutdown` right after the agent's start is back within 5 s as well."""
    agent = Agent(adapter, make_home(silent=True), "brief")
    agent.provider.on_memory_write("add", "memory", Fact.new().note)
    assert seconds(agent.provider.shutdown) < SHUTDOWN_S
