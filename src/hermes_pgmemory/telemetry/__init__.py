"""How processes that cannot open a port have their numbers counted.

Each process writes what it has counted to a file of its own in the home's folder,
every few seconds and when it stops. The kernel drops the lock beside the file when
the process dies, however it dies; whoever looks next adds the numbers of the dead to
one total. So nothing is ever counted back, and files do not pile up. A process that
is killed takes the numbers of its last seconds with it.
"""

from __future__ import annotations

from hermes_pgmemory.telemetry.folder import Gathered, Key, Snapshot, gather, living
from hermes_pgmemory.telemetry.publisher import EVERY_S, join, leave, publish

__all__ = [
    "EVERY_S",
    "Gathered",
    "Key",
    "Snapshot",
    "gather",
    "join",
    "leave",
    "living",
    "publish",
]
