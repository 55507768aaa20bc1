"""The durable queue on local disk: a hook's last stop.

One folder per HERMES_HOME holds *slots*, each an SQLite file in WAL mode with a
lock file beside it. A process claims one slot for its life; the kernel drops the
lock when the process dies, however it dies, and the next process takes the slot
over with everything in it.

What `append` promises when it returns:

- the write survives the death of this process: it is in the kernel's hands;
- it survives a power cut once `sync` has run after it, at most a second later;
- it comes out of `pending` in the order it went in, until acknowledged.

Appends do not wait for the disk: checkpoints, and with them every fsync, happen in
`sync` on a connection of its own. (One exception: the first append after another
process's status command held a checkpoint up.)
"""

from __future__ import annotations

from hermes_pgmemory.journal.adoption import orphans
from hermes_pgmemory.journal.erasure import KINDS, Slot, erasable
from hermes_pgmemory.journal.letters import DeadLetter, DeadLetters, dead_letters
from hermes_pgmemory.journal.queue import Journal, Record
from hermes_pgmemory.journal.status import JournalStatus, inspect, waiting

__all__ = [
    "KINDS",
    "DeadLetter",
    "DeadLetters",
    "Journal",
    "JournalStatus",
    "Record",
    "Slot",
    "dead_letters",
    "erasable",
    "inspect",
    "orphans",
    "waiting",
]
