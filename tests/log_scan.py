"""No test may have anything of ours log a secret or a number, at any level."""

from __future__ import annotations

import logging
import re
from typing import Final

from hermes_pgmemory.redact import redact

EVERYTHING: Final = logging.DEBUG - 5
"""A level that nothing else sets: who finds it knows that nobody asked for another."""
_NUMBER: Final = re.compile(r"(?<!\d)1?555\d{7}(?!\d)")
"""The telephone numbers of these tests; nobody has them."""


class LogScan(logging.Filter):
    """Reads every record of a logger, also those that nobody would see.

    Installed on the logger itself it comes before every handler; what is below the
    level that counts without it, it drops again.
    """

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._logger = logger
        self._format = logging.Formatter().format
        self.leaks: list[str] = []
        logger.setLevel(EVERYTHING)
        logger.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        text = self._format(record)
        if redact(text) != text or _NUMBER.search(text):
            self.leaks.append(text)
        asked = self._logger.level
        least = logging.getLogger().level if asked == EVERYTHING else asked
        return record.levelno >= least
