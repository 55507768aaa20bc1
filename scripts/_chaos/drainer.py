"""A fresh process that drains every journal of HOME and then ends: HOME SECONDS."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from hermes_pgmemory.journal import inspect
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.provider import PgvectorProvider


def _end_with_driver() -> None:
    sys.stdin.read()
    os._exit(1)


def main() -> int:
    """Return 0 if nothing waits any more."""
    home, deadline = Path(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    threading.Thread(target=_end_with_driver, daemon=True).start()
    provider = PgvectorProvider()
    provider.initialize_for_inspection("drain", hermes_home=str(home), platform="cli")
    while (left := inspect(HomePaths(home).journal).pending) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.02)
    provider.shutdown()
    print(left, flush=True)
    return 1 if left else 0
