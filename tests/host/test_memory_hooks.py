"""Reports of memory writes, through the host's own loader and MemoryManager.

In this process, so that an order of events can be forced which a conversation
reaches only by chance.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hook_kit import Start, add, wrote
from host_kit import UNNAMED, Database, eventually
from tools.memory_tool import MemoryStore, memory_tool


class TestMemoryWrites:
    def test_a_removal_takes_the_named_entry_only(
        self, start: Start, database: Database
    ):
        manager = start()
        add(manager, "The user prefers dark mode.")
        add(manager, "The user prefers short answers.")
        wrote(manager, action="remove", target="memory", old_text="dark mode")
        eventually(
            lambda: database.entries(UNNAMED), ["The user prefers short answers."]
        )

    def test_a_removal_that_names_nothing_removes_nothing(
        self, start: Start, database: Database
    ):
        manager = start()
        add(manager, "The user prefers dark mode.")
        wrote(manager, action="remove", target="memory", old_text="")
        wrote(manager, action="remove", target="memory")
        add(manager, "Written last.")
        eventually(
            lambda: database.entries(UNNAMED),
            ["The user prefers dark mode.", "Written last."],
        )

    @pytest.mark.parametrize("literal", ["15% YoY", r"C:\tmp_x", "a_b", "%", "_", "\\"])
    def test_what_a_removal_names_is_taken_literally(
        self, start: Start, database: Database, literal: str
    ):
        manager = start()
        add(manager, f"Growth {literal} since spring.")
        add(manager, "Growth 15 per cent YoY, C:/tmpyx, aXb.")
        wrote(manager, action="remove", target="memory", old_text=literal)
        add(manager, "Written last.")
        eventually(
            lambda: database.entries(UNNAMED),
            ["Growth 15 per cent YoY, C:/tmpyx, aXb.", "Written last."],
        )

    def test_a_batch_is_three_effects_in_order_and_a_replay_changes_nothing(
        self, start: Start, database: Database
    ):
        manager = start()
        for letter in "AC":
            add(manager, f"Item {letter}")
        operations = [
            {"action": "remove", "old_text": "Item A"},
            {"action": "add", "content": "Item B"},
            {"action": "replace", "old_text": "Item C", "content": "Thing D"},
        ]
        for _ in range(2):
            wrote(manager, target="memory", operations=operations)
        add(manager, "Written last.")
        eventually(
            lambda: database.entries(UNNAMED), ["Item B", "Thing D", "Written last."]
        )

    @pytest.mark.parametrize(
        "result",
        [
            {"success": False, "error": "over the limit"},
            {"success": True, "staged": True},
            "not JSON at all",
        ],
    )
    def test_a_write_that_did_not_happen_is_not_mirrored(
        self, start: Start, database: Database, result: object
    ):
        manager = start()
        raw = result if isinstance(result, str) else json.dumps(result)
        arguments = {"action": "add", "target": "memory", "content": "Never written."}
        manager.notify_memory_tool_write(raw, arguments)
        add(manager, "Written last.")
        eventually(lambda: database.entries(UNNAMED), ["Written last."])

    @pytest.mark.parametrize("seed", range(3))
    def test_any_sequence_leaves_what_the_hosts_own_store_holds(
        self, start: Start, database: Database, seed: int
    ):
        manager = start()
        store = MemoryStore()
        store.load_from_disk()
        dice = random.Random(seed)
        for number in range(40):
            arguments = _some_call(dice, number)
            result = memory_tool(store=store, **arguments)
            manager.notify_memory_tool_write(result, arguments)
        for target in ("memory", "user"):
            held = sorted(store._entries_for(target))
            eventually(lambda t=target: sorted(database.entries(UNNAMED, t)), held)


def _some_call(dice: random.Random, number: int) -> dict[str, Any]:
    """Return a call as models make them: apt, clumsy or hopeless."""

    def operation() -> dict[str, str]:
        word = dice.choice(["red", "blue", "50%", "a_b", "C:\\x", "zebra"])
        match dice.choice(["add", "add", "replace", "remove"]):
            case "add":
                padding = dice.choice(["", " ", "\n"])
                text = f"{padding}{word} {dice.randrange(9)}{padding}"
                return {"action": "add", "content": text}
            case "replace":
                text = f"{word} became {number}"
                return {"action": "replace", "old_text": word, "content": text}
            case action:
                return {"action": action, "old_text": word}

    target = dice.choice(["memory", "memory", "user"])
    if dice.random() < 0.3:
        return {"target": target, "operations": [operation() for _ in range(3)]}
    return {"target": target, **operation()}
