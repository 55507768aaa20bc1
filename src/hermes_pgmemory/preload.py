"""Load the memory provider before any agent does.

Host 0.19 imports a provider when the first agent is built, without a lock: of several
agents built at once, the losers find the plugin half imported and silently go without
memory. The host also loads general plugins, once and early, that are named in
`plugins.enabled`; this is one, and all it does is to have the provider imported.
"""

from __future__ import annotations

from typing import Any

from hermes_pgmemory import _host
from hermes_pgmemory.paths import PROVIDER


def register(ctx: Any) -> None:
    """Import the provider; called by the host's plugin manager."""
    del ctx  # there is nothing to register: providers have a registry of their own
    _host.load_provider(PROVIDER)
