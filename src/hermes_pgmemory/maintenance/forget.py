"""Forget a contact or a theme: everywhere at once, for good, and with a proof.

The order makes it safe to kill and to run again. First it is noted in the database that
they are forgotten: from then on no writer, on whatever host, stores what they said
before. Then this home's hashes of their notes are erased, then its journals and what it
knows of their sessions, then the rows, one transaction per theme. At last everything is
searched for the texts that were deleted.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from hermes_pgmemory import journal, memory_files
from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.identity import DM_THEME, GROUP_THEME
from hermes_pgmemory.lineage import Lineage
from hermes_pgmemory.maintenance.runs import Advance
from hermes_pgmemory.maintenance.themes import label
from hermes_pgmemory.maintenance.traces import Traces
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.private_notes import PrivateNotes
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.forget import READ, Held, Mine, Row
from hermes_pgmemory.subjects import known_key, readable, remember_key

TIMEOUT_S: Final = 600.0
"""For one theme's transaction, and for looking at whole tables."""
JOURNAL: Final[Mapping[str, str]] = {
    "writes": "journal, waiting",
    "dead_letters": "journal, refused",
}
NOTES: Final = "private-notes"
LINEAGE: Final = "lineage"

_SAID: Final = ("content", "old_text", "previous", "task", "context")
"""Where records hold what was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whom:
    """Who is forgotten: one theme, or the contact behind some subjects."""

    theme: str | None = None
    subjects: frozenset[str] = frozenset()
    opened: Callable[[str], str] = field(default=str, compare=False)
    """Opens what is sealed in a record of this home, see `subjects`."""

    def owns(self, text: str) -> bool:
        """Tell whether a record of the journal, or of the lineage, is theirs."""
        record = _record(self.opened(text))
        if self.theme is not None:
            return record.get("theme") == self.theme
        return record.get("subject") in self.subjects

    def is_row(self, owner: str, texts: Sequence[str]) -> bool:
        """Tell whether a row is theirs: it came since they were forgotten."""
        if self.theme is not None:
            return owner == self.theme
        return not self.subjects.isdisjoint(texts)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was deleted, or would be."""

    executed: bool
    held: Sequence[Held]
    """A contact's rows, by theme and platform, as they were found."""
    places: Mapping[str, int]
    proof: Proof | None


def whom(
    store: Store, paths: HomePaths, *, subjects: Sequence[str]
) -> tuple[Whom, list[Held]]:
    """Return the contact behind those of *subjects* that anything is stored for.

    Raises:
        BadRequest: There is nothing of them, in the database or this home, and they
            were not forgotten lately, by a run that may have been killed.
    """
    held = store.forgetting.held(subjects, timeout_s=TIMEOUT_S)
    if known_key(paths) is None and paths.journal.is_dir():
        remember_key(paths, store.verify(timeout_s=TIMEOUT_S).subject_key)
    opened = partial(readable, paths)
    asked = Whom(subjects=frozenset(subjects), opened=opened)
    here = [*_journaled(paths, asked), *_lineage(paths, asked)]
    told = {_record(opened(text)).get("subject") for text in here}
    known = {one.subject for one in held} | {one for one in told if one}
    known |= store.forgetting.forgotten(subjects, timeout_s=TIMEOUT_S)
    if not known and len(subjects) > 1:
        raise BadRequest(
            "nothing is stored of this contact: give the id as the platform spells it, "
            "the session key, or --subject with what the column subject of a row says"
        )
    return Whom(subjects=frozenset(known or subjects), opened=opened), held


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
    for name, entries in _file_entries(paths):
        proof.searched += 1
        if here := sum(map(traces.in_value, entries)):
            proof.in_files[name] = here
    return proof


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
    places[LINEAGE] = len(_lineage(paths, who))
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
    for text in _journaled(paths, who):
        record = _record(text)
        for name in _SAID:
            traces.add(str(record.get(name) or ""))
    return traces


def _journaled(paths: HomePaths, who: Whom) -> Iterator[str]:
    """Yield their records in all journals of this home."""
    for slot in journal.erasable(paths.journal):
        for kind in journal.KINDS:
            yield from filter(who.owns, slot.texts(kind))


def _lineage(paths: HomePaths, who: Whom) -> list[str]:
    """Return what this home notes of their sessions."""
    return list(filter(who.owns, Lineage(paths.state).texts()))


def _erase(paths: HomePaths, who: Whom) -> Counter[str]:
    places: Counter[str] = Counter()
    for slot in journal.erasable(paths.journal):
        for kind, count in slot.erase(who.owns).items():
            places[JOURNAL[kind]] += count
    places[LINEAGE] = Lineage(paths.state).erase(who.owns)
    return places


def _unnote(paths: HomePaths, traces: Traces) -> int:
    """Erase the hashes of private notes, but of those that files still hold."""
    held = [entry for _, entries in _file_entries(paths) for entry in entries]
    return PrivateNotes(paths.state).erase(traces.notes - Traces.digests_of(held))


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


_OWNED: Final = (
    *("memory_entries", "memory_entry_history", "conversations"),
    *("memory_agent_edges", "memory_agents"),
)
"""Tables whose rows belong to somebody."""


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


def _file_entries(paths: HomePaths) -> Iterator[tuple[str, Sequence[str]]]:
    for target, name in memory_files.FILES.items():
        try:
            yield name, memory_files.read(paths, target).entries
        except OSError:
            # The host cannot read it either, and follows the file's mode.
            continue


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


def _record(text: str) -> Mapping[str, Any]:
    """Read a record of the journal; nothing, where no version could."""
    try:
        record: object = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", record) if isinstance(record, dict) else {}
