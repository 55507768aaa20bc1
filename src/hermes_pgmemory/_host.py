"""The only importer of the host.

The package must import without hermes-agent (commands, tests, other programs), so
each name the host gives has a stand-in here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:

    class MemoryProvider:
        """The host's abstract base, as far as we use it."""

else:
    try:
        from agent.memory_provider import MemoryProvider
    except ImportError:

        class MemoryProvider:
            """Stands in for the host's abstract base class."""


def recall_status(label: str, count: int) -> object | None:
    """Return the host's `RecallStatus`, or None where the host has none."""
    try:
        host = importlib.import_module("agent.memory_provider")
    except ImportError:
        return None
    status = getattr(host, "RecallStatus", None)
    return None if status is None else status(provider_label=label, count=count)


def load_provider(name: str) -> None:
    """Have the host import the memory provider *name*, if there is a host."""
    try:
        loader = importlib.import_module("plugins.memory")
    except ImportError:
        return
    loader.load_memory_provider(name)


__all__ = ["MemoryProvider", "load_provider", "recall_status"]
