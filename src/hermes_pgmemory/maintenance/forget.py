"""Forget a contact or a theme: everywhere at once, for good, and with a proof.

The order makes it safe to kill and to run again. First it is noted in the database that
they are forgotten: from then on no writer, on whatever host, stores what they said
before. Then this home's hashes of their notes are erased, then its journals and what it
knows of their sessions, then the rows, one transaction per theme. At last everything is
searched for the texts that were deleted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hermes_pgmemory import journal
from hermes_pgmemory.identity import DM_THEME, GROUP_THEME
from hermes_pgmemory.lineage import Lineage
from hermes_pgmemory.maintenance.proof import Proof, file_entries, prove
from hermes_pgmemory.maintenance.runs import Advance
from hermes_pgmemory.maintenance.themes import label
from hermes_pgmemory.maintenance.traces import Traces
from hermes_pgmemory.maintenance.whom import (
    TIMEOUT_S,
    Whom,
    in_lineage,
    journaled,
    record_of,
)
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.private_notes import PrivateNotes
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.forget import Held, Mine

JOURNAL: Final[Mapping[str, str]] = {
    "writes": "journal, waiting",
    "dead_letters": "journal, refused",
}
NOTES: Final = "private-notes"
LINEAGE: Final = "lineage"

_SAID: Final = ("content", "old_text", "previous", "task", "context")
"""Where records hold what was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was deleted, or would be."""

    executed: bool
    held: Sequence[Held]
    """A contact's rows, by theme and platform, as they were found."""
    places: Mapping[str, int]
    proof: Proof | None


def forget(
    store: Store,
    paths: HomePaths,
    who: Whom,
    held: Sequence[Held],
    *,
    execute: bool,
    advance: Advance,
) -> Forgotten:
    """Delete everything of *who*, and search for what is left; or count it.

    *advance* is told of every row that is searched.
    """
    mine = _owners(who, held)
    if not execute:
        places = _count(store, paths, who, mine)
        return Forgotten(executed=False, held=held, places=places, proof=None)
    started = time.monotonic()
    traces = _texts(store, paths, who, mine)
    store.forgetting.note(mine, timeout_s=TIMEOUT_S)
    # Before what they said: only that tells which hashes to erase, also next time.
    notes = _unnote(paths, traces)
    places = _erase(paths, who)
    places[NOTES] = notes
    line = store.maintenance.open_run(
        "forget",
        None,
        pattern="(a contact)" if who.theme is None else "(a theme)",
        details={},
        timeout_s=TIMEOUT_S,
    )
    for one in mine:
        places.update(_delete(store, who, one, line))
    refused = store.forgetting.vacuum()
    proof = prove(store, paths, who, traces, advance)
    proof.not_vacuumed = refused
    _close(store, line, places, proof, started)
    return Forgotten(executed=True, held=held, places=places, proof=proof)


def _owners(who: Whom, held: Sequence[Held]) -> list[Mine]:
    if who.theme is not None:
        return [Mine(theme=who.theme, subjects=None)]
    themes = {one.theme for one in held} | {DM_THEME, GROUP_THEME}
    subjects = tuple(sorted(who.subjects))
    return [Mine(theme=theme, subjects=subjects) for theme in sorted(themes)]


def _count(
    store: Store, paths: HomePaths, who: Whom, mine: Sequence[Mine]
) -> Counter[str]:
    places: Counter[str] = Counter()
    for slot in journal.erasable(paths.journal):
        for kind in journal.KINDS:
            places[JOURNAL[kind]] += sum(map(who.owns, slot.texts(kind)))
    places[LINEAGE] = len(in_lineage(paths, who))
    for one in mine:
        places.update(_delete(store, who, one, None))
    return places


def _delete(store: Store, who: Whom, one: Mine, line: int | None) -> dict[str, int]:
    names = [*who.subjects] if who.theme is None else [who.theme, label(who.theme)]
    return store.forgetting.forget(one, names=names, line=line, timeout_s=TIMEOUT_S)


def _texts(store: Store, paths: HomePaths, who: Whom, mine: Sequence[Mine]) -> Traces:
    """Learn every text that goes."""
    traces = Traces()
    for one in mine:
        for text in store.forgetting.texts(one, timeout_s=TIMEOUT_S):
            traces.add(text)
    for text in journaled(paths, who):
        record = record_of(text)
        for name in _SAID:
            traces.add(str(record.get(name) or ""))
    return traces


def _erase(paths: HomePaths, who: Whom) -> Counter[str]:
    places: Counter[str] = Counter()
    for slot in journal.erasable(paths.journal):
        for kind, count in slot.erase(who.owns).items():
            places[JOURNAL[kind]] += count
    places[LINEAGE] = Lineage(paths.state).erase(who.owns)
    return places


def _unnote(paths: HomePaths, traces: Traces) -> int:
    """Erase the hashes of private notes, but of those that files still hold."""
    held = [entry for _, entries in file_entries(paths) for entry in entries]
    return PrivateNotes(paths.state).erase(traces.notes - Traces.digests_of(held))


def _close(
    store: Store, line: int, places: Counter[str], proof: Proof, started: float
) -> None:
    details = {
        "finished": True,
        "seconds": round(time.monotonic() - started, 1),
        "places": {place: count for place, count in places.items() if count},
        "texts": proof.texts,
        "found": sum(proof.found.values()),
    }
    store.maintenance.add_to_run(line, details=details, timeout_s=TIMEOUT_S)
