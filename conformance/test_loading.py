"""Before `initialize`: being found, loaded and asked what it offers."""

from __future__ import annotations

import json
import time

import pytest
from agent.memory_provider import MemoryProvider
from conformance_kit import schema
from conformance_kit.hosted import call, load_memory_provider
from conformance_kit.watch import watched


@pytest.fixture
def loaded(home, adapter):
    """A provider that was loaded and not initialized."""
    home.enter()
    return load_memory_provider(adapter.name)


@pytest.mark.check("load.fresh", "must")
def test_fresh(loaded, adapter):
    """Each load gives the host an instance of its own."""
    again = load_memory_provider(adapter.name)
    assert loaded is not None, "the host finds no provider"
    assert loaded is not again, "two agents share one instance"


@pytest.mark.check("load.name", "must")
def test_name(loaded, adapter):
    """The provider's name is the one that `memory.provider` gives."""
    assert loaded.name == adapter.name


@pytest.mark.check("load.hooks", "must")
def test_hooks(loaded):
    """Every method that the host calls is there."""
    hooks = [name for name in vars(MemoryProvider) if not name.startswith("_")]
    assert [name for name in hooks if not hasattr(loaded, name)] == []


@pytest.mark.check("load.available", "must")
def test_available(loaded):
    """`is_available` is quick, and neither connects, starts nor writes anything."""
    with watched() as seen:
        began = time.perf_counter()
        loaded.is_available()
        spent = time.perf_counter() - began
    assert seen == []
    assert spent < 0.05, f"{spent * 1e3:.0f} ms"


@pytest.mark.check("load.settings", "must")
def test_settings(loaded):
    """Its settings are described by key and words, in what JSON can hold."""
    fields = call(loaded, "get_config_schema")
    json.dumps(fields)
    dumb = [one for one in fields if not one.get("key") or not one.get("description")]
    assert dumb == []


@pytest.mark.check("load.backup", "must")
def test_backup(loaded):
    """`backup_paths` answers with absolute paths before `initialize`."""
    assert [
        path for path in call(loaded, "backup_paths") if not path.startswith("/")
    ] == []


@pytest.mark.check("tools.valid", "must")
def test_valid(loaded):
    """Tools are described by a name, words, and a valid JSON Schema of an object."""
    faults = [
        fault for tool in loaded.get_tool_schemas() for fault in schema.faults(tool)
    ]
    assert faults == []


@pytest.mark.check("tools.early", "must")
def test_early(start, loaded):
    """Tools are the same before `initialize` and after it."""
    before = loaded.get_tool_schemas()
    assert start().provider.get_tool_schemas() == before


@pytest.mark.check("tools.names", "must")
def test_names(agent):
    """No tool takes the name of one of the host's own."""
    declared = {
        schema.function(tool)["name"] for tool in agent.provider.get_tool_schemas()
    }
    assert declared - agent.manager.get_all_tool_names() == set()


@pytest.mark.check("tools.own", "should")
def test_own(loaded):
    """What a caller does to a returned schema does not change the next one."""
    before = json.dumps(loaded.get_tool_schemas())
    for tool in loaded.get_tool_schemas():
        schema.function(tool)["description"] = "changed"
    assert json.dumps(loaded.get_tool_schemas()) == before
