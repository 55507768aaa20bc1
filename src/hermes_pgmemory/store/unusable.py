"""The store of a connection string that cannot be used: it says so when asked."""

from __future__ import annotations

from typing import NoReturn

from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.store import Store


class _Refusal:
    """Stands where the database would."""

    def __init__(self, reason: ConfigError) -> None:
        self._reason = reason

    def transaction(self, timeout_s: float) -> NoReturn:  # noqa: ARG002
        raise self._reason

    def close(self) -> None:
        """Do nothing: nothing is open."""


class UnusableStore(Store):
    """A `Store` whose every call raises the same `ConfigError`."""

    def __init__(self, reason: ConfigError) -> None:
        """Refuse because of *reason*; agents journal meanwhile."""
        self._model = None
        self._database = _Refusal(reason)
