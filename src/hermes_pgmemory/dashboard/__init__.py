"""A page in the browser that shows what the fleet remembers, and changes nothing.

It answers on loopback only, to the one browser that the printed address let in. What
it reads, it reads in transactions that PostgreSQL knows to be read-only. Texts reach a
page through templates that escape everything, and the page may run no script but ours.
"""

from __future__ import annotations

from hermes_pgmemory.dashboard.serving import Serving
from hermes_pgmemory.dashboard.sources import Sources

__all__ = ["Serving", "Sources"]
