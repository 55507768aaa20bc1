"""The store and the embedder that the settings name.

An agent must run whatever is configured: in the place of one that cannot be used
stands one that says so whenever it is asked.
"""

from __future__ import annotations

import logging

from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import Embedder, make_embedder
from hermes_pgmemory.embed.unusable import UnusableEmbedder
from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.standby import ReplicatedStore
from hermes_pgmemory.store.unusable import UnusableStore

log = logging.getLogger("hermes_pgmemory")


def store(dsn: str, dsn_read: str, *, model: str) -> Store:
    """Make the store; with a wrong connection string, one that says so."""
    try:
        primary = Store(dsn, model=model)
    except ConfigError as exc:
        return UnusableStore(exc)
    try:
        return ReplicatedStore(dsn, dsn_read, model=model) if dsn_read else primary
    except ConfigError as exc:
        log.warning("recall asks the primary: %s", exc)
        return primary


def embedder(settings: Settings) -> Embedder:
    """Make the configured embedder; with a wrong setting, one that says so."""
    try:
        return make_embedder(settings)
    except ConfigError as exc:
        log.warning("texts are stored without vectors: %s", exc)
        return UnusableEmbedder(settings.embed_model, str(exc))
