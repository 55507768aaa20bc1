"""What each session's prompt shows of the memory files: not to be told twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from hermes_pgmemory import memory_files
from hermes_pgmemory.models import Theme
from hermes_pgmemory.paths import HomePaths

REMEMBERED: Final = 512


class Prompts:
    """Remembers the prompts of the sessions that began last. Thread-safe."""

    def __init__(self, paths: HomePaths) -> None:
        """Know of none yet."""
        self._paths = paths
        self._mutex = threading.Lock()
        self._shown: OrderedDict[tuple[Theme, str], frozenset[str]] = OrderedDict()

    def note(self, theme: Theme, session_id: str) -> None:
        """Remember which file entries the prompt being built now shows."""
        shown = memory_files.shown(self._paths)
        with self._mutex:
            self._shown[theme, session_id] = shown
            self._shown.move_to_end((theme, session_id))
            while len(self._shown) > REMEMBERED:
                self._shown.popitem(last=False)

    def shown(self, theme: Theme, session_id: str) -> frozenset[str]:
        """Return the entries this session's prompt shows, as far as we know."""
        with self._mutex:
            return self._shown.get((theme, session_id), frozenset())
