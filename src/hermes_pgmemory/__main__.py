"""`python -m hermes_pgmemory`: the command, where no script is on the PATH."""

from __future__ import annotations

import sys

from hermes_pgmemory.cli import main

if __name__ == "__main__":
    sys.exit(main())
