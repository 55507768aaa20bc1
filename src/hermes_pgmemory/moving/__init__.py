"""Memory on the move: out into files, in from other memories, into a backup and back.

`sources.SOURCES` is the table of what can be read; help and documentation follow it.
Every reader yields rows as the store keeps them, and `coming_in` keeps what is new.
"""

from __future__ import annotations
