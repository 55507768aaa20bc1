"""Whose memory a connection reads and writes: its flag's, or its header's."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.key_text import fold
from hermes_pgmemory.memory import Memory

THEME_HEADER: Final = "X-Hermes-Session-Key"
"""Names a connection's theme, as it does for the host's API server."""
PLATFORM: Final = "mcp"
CLOSING_S: Final = 3.0
_UNNAMED: Final = "default"


class Entry:
    """Opens memories of one home, and keeps their engine alive in between."""

    def __init__(self, home: Path, theme: str | None) -> None:
        """Open *home*; with a *theme*, every connection gets that one's memory.

        Raises:
            ConfigError: The home's settings cannot be used.
            JournalUnavailable: Its journal cannot be used.
            DatabaseUnavailable: As for `Memory`, of a private chat's theme.
        """
        self._home = home
        self._theme = theme
        self._own = self._open(theme)

    @contextmanager
    def memory(self, named: str | None) -> Generator[Memory]:
        """Open the memory of a connection whose header names a theme, or none.

        Raises:
            BadRequest: The server is for one theme, and the header names another.
        """
        if self._theme is not None:
            if named and fold(named) != fold(self._theme):
                raise BadRequest(
                    f"this server is for one theme: leave {THEME_HEADER} out"
                )
            yield self._own
            return
        # Cheap while `_own` holds the engine; nothing is remembered of the theme.
        memory = self._open(named)
        try:
            yield memory
        finally:
            memory.close(timeout_s=0)

    def close(self) -> None:
        """Store what was accepted, briefly; the journal keeps the rest."""
        self._own.close(timeout_s=CLOSING_S)

    def _open(self, theme: str | None) -> Memory:
        return Memory(theme=theme or _UNNAMED, home=self._home, platform=PLATFORM)
