"""What the chat model gets when it calls a tool wrongly."""

from __future__ import annotations

import json

import pytest
from conformance_kit import schema


@pytest.fixture
def functions(agent):
    """The provider's tools."""
    found = [schema.function(tool) for tool in agent.provider.get_tool_schemas()]
    if not found:
        pytest.skip("the provider has no tools")
    return found


def answer(agent, name, arguments):
    """Call a tool of the provider itself, and read its answer as JSON."""
    said = agent.provider.handle_tool_call(name, arguments)
    assert isinstance(said, str), f"{name} answers with {type(said).__name__}"
    return json.loads(said)


def valid(adapter, name):
    """Return arguments that the adapter knows to be right; None if it knows none."""
    for recall in (adapter.notes, adapter.turns):
        if recall is not None and recall.tool == name:
            return {**recall.arguments, recall.query: "anything"}
    return None


@pytest.mark.check("tools.unknown", "must")
def test_unknown(agent, functions):
    """A tool that does not exist is answered with an error in JSON, not by raising."""
    assert "error" in answer(agent, "no_such_tool", {})


@pytest.mark.check("tools.missing-arguments", "must")
def test_missing_arguments(agent, functions):
    """A call without its required arguments is answered with an error in JSON."""
    for one in functions:
        if one["parameters"].get("required"):
            assert "error" in answer(agent, one["name"], {}), one["name"]


@pytest.mark.check("tools.unknown-arguments", "must")
def test_unknown_arguments(agent, adapter, functions):
    """An argument that does not exist is answered in JSON, not by raising."""
    for one in functions:
        right = valid(adapter, one["name"]) or {}
        answer(agent, one["name"], right | {"no_such_argument": 1})


@pytest.mark.check("tools.wrong-arguments", "must")
def test_wrong_arguments(agent, adapter, functions):
    """Arguments of a wrong type or size are answered in JSON, not by raising."""
    for one in functions:
        right = valid(adapter, one["name"]) or {}
        for name in one["parameters"].get("properties", {}):
            for wrong in (None, [], {}, True, -1, 10**30, float("inf"), "\0", "\udcc4"):
                answer(agent, one["name"], right | {name: wrong})


@pytest.mark.check("tools.long-question", "must")
def test_long_question(agent, adapter, functions):
    """A question of 100,000 characters is answered in JSON, not by raising."""
    for recall in (adapter.notes, adapter.turns):
        if recall is not None:
            arguments = {**recall.arguments, recall.query: "why not? " * 11_000}
            answer(agent, recall.tool, arguments)
