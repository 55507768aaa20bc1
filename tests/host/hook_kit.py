"""What the tests of single hooks share: how a manager is told of events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agent.memory_manager import MemoryManager

Start = Callable[..., MemoryManager]


def wrote(manager: MemoryManager, **arguments: Any) -> None:
    """Report a successful call of the memory tool."""
    manager.notify_memory_tool_write('{"success": true}', arguments)


def add(manager: MemoryManager, content: str, target: str = "memory") -> None:
    wrote(manager, action="add", target=target, content=content)


def recalled(manager: MemoryManager, tool: str, **arguments: Any) -> list[str]:
    answer = json.loads(manager.handle_tool_call(tool, arguments))
    return [row["content"] for row in answer["results"]]


SPOKEN = "What was agreed on in the meeting of the {} committee?"
ANSWER = "The {} committee agreed on a new roof for the boathouse."


def speak(manager: MemoryManager, what: str, session_id: str) -> list[dict[str, str]]:
    messages = [
        {"role": "user", "content": SPOKEN.format(what)},
        {"role": "assistant", "content": ANSWER.format(what)},
    ]
    manager.sync_all(
        messages[0]["content"],
        messages[1]["content"],
        session_id=session_id,
        messages=messages,
    )
    assert manager.flush_pending(10)
    return messages
