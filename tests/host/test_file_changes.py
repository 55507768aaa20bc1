"""What changes the memory files past the memory tool, through the host's own code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from agent.memory_manager import MemoryManager
from hermes_cli.write_approval_commands import handle_pending_subcommand
from hook_kit import Start, recalled
from host_kit import UNNAMED, Database, MakeHome, eventually
from tools.memory_tool import MemoryStore, memory_tool

from hermes_pgmemory import housekeeping


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping.memory_files, "SETTLE_S", 0.2)


@pytest.fixture
def files(
    start: Start, make_home: MakeHome, database: Database, tmp_path: Path
) -> MemoryStore:
    """The host's own store of the home of `start`, where writes wait for approval."""
    assert callable(start)  # it has set HERMES_HOME
    settings = {"dsn": database.dsn}
    make_home(tmp_path / "home", settings, memory={"write_approval": True})
    store = MemoryStore()
    store.load_from_disk()
    return store


def tool(manager: MemoryManager, files: MemoryStore, **arguments: Any) -> str:
    """Call the memory tool and tell the providers of it, as the host's agent does."""
    result = memory_tool(store=files, **arguments)
    manager.notify_memory_tool_write(result, arguments)
    return result


def approve_all(files: MemoryStore) -> str:
    words = ["approve", "all"]
    return str(handle_pending_subcommand("memory", words, memory_store=files))


def test_an_approved_write_is_recalled_and_an_approved_removal_is_not(
    start: Start, files: MemoryStore, database: Database
):
    manager = start()
    for content in ("The boathouse has a red roof.", "Tea is at four.", "No meat."):
        staged = tool(manager, files, action="add", target="memory", content=content)
        assert json.loads(staged)["staged"]
    assert "Approved 3" in approve_all(files)
    manager.on_session_end([])
    eventually(
        lambda: database.entries(UNNAMED),
        ["No meat.", "Tea is at four.", "The boathouse has a red roof."],
    )
    tool(manager, files, action="remove", target="memory", old_text="red roof")
    assert "Approved 1" in approve_all(files)
    manager.on_session_end([])
    eventually(lambda: database.entries(UNNAMED), ["No meat.", "Tea is at four."])
    found = recalled(manager, "recall_memory", query="red roof of the boathouse")
    assert "The boathouse has a red roof." not in found


def test_what_a_background_review_rewrote_is_followed(
    start: Start, files: MemoryStore, database: Database
):
    for content in ("one", "two", "three"):
        files.add("memory", content)
    manager = start()
    eventually(lambda: database.entries(UNNAMED), ["one", "three", "two"])
    files.replace("memory", "two", "second")
    manager.on_session_end([])
    eventually(lambda: database.entries(UNNAMED), ["one", "second", "three"])


def test_a_manual_edit_is_followed_by_the_next_agent(
    start: Start, files: MemoryStore, database: Database, tmp_path: Path
):
    for content in ("one", "two", "three"):
        files.add("memory", content)
    start()
    eventually(lambda: database.entries(UNNAMED), ["one", "three", "two"])
    path = tmp_path / "home" / "memories" / "MEMORY.md"
    path.write_text("one\n§\nthree\n§\nby hand\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    start("session-2")
    eventually(lambda: database.entries(UNNAMED), ["by hand", "one", "three"])
