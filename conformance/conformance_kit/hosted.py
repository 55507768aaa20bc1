"""An agent of the host without its chat model: what it would call, called."""

from __future__ import annotations

import inspect
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from agent.memory_manager import MemoryManager
from agent.memory_provider import MemoryProvider
from plugins.memory import load_memory_provider
from tools.memory_tool import MemoryStore, memory_tool

from conformance_kit.adapter import Adapter, Recall
from conformance_kit.home import ROOM, Home

SOON_S = float(os.environ.get("CONFORMANCE_PATIENCE_S", "20"))
"""Seconds within which what was written must be recalled."""
T = TypeVar("T")


def eventually(look: Callable[[], T], fits: Callable[[T], bool]) -> T:
    """Look until it fits; return what was seen.

    Raises:
        AssertionError: It did not within `SOON_S`; the message holds the last look.
    """
    deadline = time.monotonic() + SOON_S
    while True:
        seen = look()
        if fits(seen):
            return seen
        assert time.monotonic() < deadline, f"after {SOON_S:g} s: {seen!r}"
        time.sleep(0.02)


class Agent:
    """A memory manager with the provider, and the built-in memory tool beside it.

    Built as the host builds it, see `agent_init.py`; hooks go through the manager,
    which catches what a provider raises.
    """

    def __init__(
        self, adapter: Adapter, home: Home, session_id: str, **who: Any
    ) -> None:
        """Load and initialize the provider in *home* for *who* speaks."""
        home.enter()
        self.adapter = adapter
        self.session_id = session_id
        self.messages: list[dict[str, Any]] = []
        self.provider = load_memory_provider(adapter.name)
        assert self.provider is not None, f"the host finds no provider {adapter.name!r}"
        assert self.provider.is_available(), "is_available() is false"
        self.manager = MemoryManager()
        self.manager.add_provider(self.provider)
        self.store = MemoryStore(memory_char_limit=ROOM, user_char_limit=ROOM)
        self.store.load_from_disk()
        self.who = common(home) | who
        self.manager.initialize_all(session_id=session_id, **self.who)

    # -- what it writes ------------------------------------------------------

    def memory(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Call the built-in memory tool; the host tells the provider of it."""
        arguments = {"action": action, "target": "memory", **arguments}
        return self._memory_tool(arguments)

    def batch(self, *operations: dict[str, Any]) -> dict[str, Any]:
        """Call it with several operations at once."""
        return self._memory_tool({"target": "memory", "operations": [*operations]})

    def _memory_tool(self, arguments: dict[str, Any]) -> dict[str, Any]:
        result = memory_tool(**arguments, store=self.store)
        self.manager.notify_memory_tool_write(
            result, arguments, build_metadata=self._metadata
        )
        return json.loads(result)

    def _metadata(self) -> dict[str, Any]:
        return {
            "write_origin": "assistant_tool",
            "execution_context": "foreground",
            "session_id": self.session_id,
            "platform": self.who["platform"],
            "tool_name": "memory",
        }

    def say(self, user: str, assistant: str, *, recalled: str = "") -> None:
        """Have an exchange, with *recalled* injected into its request."""
        self.hold(user, assistant, recalled=recalled)
        self.deliver(user, assistant)

    def hold(self, user: str, assistant: str, *, recalled: str = "") -> None:
        """Have an exchange whose turn does not end yet."""
        self.manager.on_turn_start(len(self.messages) // 2 + 1, user)
        said: dict[str, Any] = {"role": "user", "content": user}
        if recalled:
            fence = "<memory-context>\n{}\n</memory-context>"
            said["api_content"] = f"{user}\n\n{fence.format(recalled)}"
        answer = {"role": "assistant", "content": assistant, "finish_reason": "stop"}
        self.messages += [said, answer]

    def deliver(self, user: str, assistant: str) -> None:
        """Hand an exchange over as at a turn's end, on the host's own thread."""
        self.manager.sync_all(
            user, assistant, session_id=self.session_id, messages=self.messages
        )
        self.manager.queue_prefetch_all(user, session_id=self.session_id)

    def flush(self) -> None:
        """Wait until the hooks that were queued have returned."""
        assert self.manager.flush_pending(timeout=SOON_S), "sync_turn does not return"

    def end_session(self) -> None:
        """Tell of the session's end, or of a compaction: with all that was said."""
        self.manager.on_session_end(self.messages)

    def close(self) -> None:
        """End as the command line does."""
        self.end_session()
        self.manager.shutdown_all()

    # -- what it recalls -----------------------------------------------------

    def ask(self, recall: Recall | None, query: str) -> list[str]:
        """Call a recall tool; return the texts of its results."""
        assert recall is not None
        arguments = {**recall.arguments, recall.query: query}
        answer = json.loads(self.manager.handle_tool_call(recall.tool, arguments))
        hits = answer.get(recall.hits) or []
        return [str(hit.get(recall.text)) for hit in hits]

    def notes(self, query: str) -> list[str]:
        """Recall what the memory tool wrote."""
        return self.ask(self.adapter.notes, query)

    def turns(self, query: str) -> list[str]:
        """Recall what was said."""
        return self.ask(self.adapter.turns, query)


def call(provider: Any, hook: str, *args: Any, **kwargs: Any) -> Any:
    """Call a hook; where it is missing, which is a check of its own, the default."""
    owner = provider if hasattr(provider, hook) else MemoryProvider
    before = () if owner is provider else (provider,)
    return getattr(owner, hook)(*before, *args, **kwargs)


def tell(provider: Any, *written: str, metadata: Mapping[str, Any]) -> None:
    """Tell a provider of a write as the manager does, without what it catches.

    The host leaves *metadata* out where an older signature has no room for it.
    """
    parameters = inspect.signature(provider.on_memory_write).parameters
    takes = "metadata" in parameters or any(
        one.kind is one.VAR_KEYWORD for one in parameters.values()
    )
    if takes:
        provider.on_memory_write(*written, metadata=dict(metadata))
    elif len(parameters) > len(written):
        provider.on_memory_write(*written, dict(metadata))
    else:
        provider.on_memory_write(*written)


def common(home: Home) -> dict[str, Any]:
    """Return what the host tells every provider."""
    return {
        "platform": "cli",
        "hermes_home": str(home.path),
        "agent_context": "primary",
        "agent_identity": home.identity,
        "agent_workspace": "hermes",
    }
