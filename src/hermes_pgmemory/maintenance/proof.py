"""The proof that somebody is forgotten: a search for all texts that were deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from hermes_pgmemory import journal, memory_files
from hermes_pgmemory.lineage import Lineage
from hermes_pgmemory.maintenance.runs import Advance
from hermes_pgmemory.maintenance.traces import Traces
from hermes_pgmemory.maintenance.whom import TIMEOUT_S, Whom
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.forget import READ, Row

_OWNED: Final = (
    *("memory_entries", "memory_entry_history", "conversations"),
    *("memory_agent_edges", "memory_agents"),
)
"""Tables whose rows belong to somebody."""


@dataclass(slots=True, kw_only=True)
class Proof:
    """What a search for the deleted texts came to, place by place."""

    texts: int
    """Different ones that were searched for."""
    searched: int = 0
    """Rows, records and files."""
    found: Counter[str] = field(default_factory=Counter[str])
    """Where a text still is, and should not be."""
    elsewhere: Counter[str] = field(default_factory=Counter[str])
    """Rows of others that hold the same words, by table; they stay."""
    since: int = 0
    """Rows and records of what they said since then."""
    in_files: Counter[str] = field(default_factory=Counter[str])
    """Entries of the host's own memory files."""
    not_rewritten: int = 0
    """Journals too full to be written anew now."""
    not_vacuumed: Sequence[str] = ()
    """Tables that this role may not clear of dead rows."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left that this command can reach."""
        return not (self.found or self.in_files or self.not_rewritten)


def prove(
    store: Store, paths: HomePaths, who: Whom, traces: Traces, advance: Advance
) -> Proof:
    """Search all tables, and the files of this home, for *traces*."""
    proof = Proof(texts=len(traces.digests))
    for table in READ:  # pg_stats, which is about the others, last
        for row in store.forgetting.rows(table, timeout_s=TIMEOUT_S):
            _search_row(row, table, who, traces, proof)
            advance(1)
    for slot in journal.erasable(paths.journal):
        _search_slot(slot, who, traces, proof)
    for text in Lineage(paths.state).texts():
        proof.searched += 1
        proof.since += who.owns(text)
    for name, entries in file_entries(paths):
        proof.searched += 1
        if here := sum(map(traces.in_value, entries)):
            proof.in_files[name] = here
    return proof


def _search_row(row: Row, table: str, who: Whom, traces: Traces, proof: Proof) -> None:
    proof.searched += 1
    if who.is_row(row.owner, row.texts):
        proof.since += table in _OWNED
    elif any(map(traces.in_value, row.texts)):
        if table in _OWNED:
            proof.elsewhere[table] += 1
        elif row.owner not in proof.elsewhere:
            # The planner's samples are of living rows, if any hold the text.
            proof.found[table] += 1


def _search_slot(slot: journal.Slot, who: Whom, traces: Traces, proof: Proof) -> None:
    rewritten = slot.scrub()
    proof.not_rewritten += not rewritten
    living: list[str] = []
    for kind in journal.KINDS:
        for text in slot.texts(kind):
            proof.searched += 1
            living.append(text)
            proof.since += who.owns(text)
    for data in slot.raw() if rewritten else ():
        proof.searched += 1
        proof.found["journal"] += traces.in_bytes(data, living)
    proof.found += Counter()  # without zeros


def file_entries(paths: HomePaths) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the name and the entries of each memory file of the host."""
    for target, name in memory_files.FILES.items():
        try:
            yield name, memory_files.read(paths, target).entries
        except OSError:
            # The host cannot read it either, and follows the file's mode.
            continue
