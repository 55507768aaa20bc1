"""What was accepted, what that must have come to, and what the database holds."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Operation = dict[str, Any]
Place = tuple[str, str]
"""A theme and a target, or a theme and a session."""
Said = tuple[str, str]
"""A role and a text."""


@dataclass(frozen=True, slots=True)
class Row:
    """An entry that must be there."""

    key: str
    author: str
    born: int
    """Rows of one author have ids in the order of this."""


@dataclass(slots=True)
class Verdict:
    """What is wrong, in numbers and in words."""

    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    findings: list[str] = field(default_factory=list[str])

    def note(self, what: str, where: object, write: object) -> None:
        """Count one finding of the kind *what*."""
        name = what.replace(" ", "_")
        setattr(self, name, getattr(self, name) + 1)
        self.findings.append(f"{what}: {write!r} in {where}")


class Book:
    """A plain model of the database, fed with what the writers announced."""

    def __init__(self) -> None:
        """Start with an empty database."""
        self.accepted = 0
        self.refused = 0
        self._rows: defaultdict[Place, dict[str, Row]] = defaultdict(dict)
        self._turns: defaultdict[Place, list[Said]] = defaultdict(list)
        self._open: dict[tuple[Place, str], tuple[set[str], set[str]]] = {}
        """Per entry whose last write was cut short: the contents before and after."""
        self._tails: dict[Place, list[Said]] = {}
        """Per session whose last turn was cut short: that turn."""

    def read(self, announcements: Path, author: str) -> None:
        """Take in everything one dead writer announced."""
        lines = (
            announcements.read_bytes().splitlines() if announcements.exists() else []
        )
        records = [json.loads(line) for line in lines]
        for operation, outcome in zip(records[::2], records[1::2], strict=False):
            if outcome["outcome"] == "accepted":
                self._apply(operation, author)
            else:
                self.refused += 1
        if len(records) % 2:
            self._leave_open(records[-1], author)

    def live(self, theme: str) -> dict[str, str]:
        """Return key to content of *theme*'s entries that a new writer may change."""
        return {
            row.key: content
            for (owner, target), rows in self._rows.items()
            if owner == theme
            for content, row in rows.items()
            if ((owner, target), row.key) not in self._open
        }

    def _apply(self, operation: Operation, author: str) -> None:
        if operation["kind"] == "turn":
            self._turns[_session(operation)] += _spoken(operation)
            self.accepted += 2
            return
        self.accepted += 1
        rows = self._rows[_place(operation)]
        victim = _victim(rows, operation)
        content = operation["content"]
        old = rows.pop(victim) if victim else None
        if content and content not in rows:
            born = old.born if old else self.accepted
            rows[content] = Row(operation["key"], author, born)

    def _leave_open(self, operation: Operation, author: str) -> None:
        if operation["kind"] == "turn":
            self._tails[_session(operation)] = _spoken(operation)
            return
        place, key = _place(operation), operation["key"]
        before = self._of(place, key)
        accepted = self.accepted
        self._apply(operation, author)
        self.accepted = accepted
        self._open[place, key] = before, self._of(place, key)

    def _of(self, place: Place, key: str) -> set[str]:
        return {text for text, row in self._rows[place].items() if row.key == key}

    # -- comparing -----------------------------------------------------------

    def compare(
        self,
        entries: Iterable[tuple[str, str, str]],
        turns: Iterable[tuple[str, str, str, str]],
    ) -> Verdict:
        """Judge the database.

        Args:
            entries: Theme, target and content of each row, in the order of ids.
            turns: Theme, session, role and content of each row, in that order too.
        """
        verdict = Verdict()
        found: defaultdict[Place, list[str]] = defaultdict(list)
        for theme, target, content in entries:
            found[theme, target].append(content)
        for place in self._rows.keys() | found.keys():
            self._compare_entries(verdict, place, found[place])
        heard: defaultdict[Place, list[Said]] = defaultdict(list)
        for theme, session, role, content in turns:
            heard[theme, session].append((role, content))
        for place in self._turns.keys() | heard.keys():
            self._compare_turns(verdict, place, heard[place])
        return verdict

    def _compare_entries(
        self, verdict: Verdict, place: Place, found: Sequence[str]
    ) -> None:
        rows = dict(self._rows[place])
        left = Counter(found)
        self._set_open_aside(verdict, place, rows, left)
        missing = rows.keys() - left.keys()
        for text in (left - Counter(rows.keys())).elements():
            stale = {other for other in missing if _key(other) == _key(text)}
            missing -= stale
            verdict.note("out of order" if stale else "duplicated", place, text)
        for text in sorted(missing):
            verdict.note("lost", place, text)
        last: Counter[str] = Counter()
        for row, text in [(rows[text], text) for text in found if text in rows]:
            if row.born < last[row.author]:
                verdict.note("out of order", place, text)
            last[row.author] = row.born

    def _set_open_aside(
        self, verdict: Verdict, place: Place, rows: dict[str, Row], left: Counter[str]
    ) -> None:
        """Judge the entries whose last write was cut short, and take them out."""
        for (where, key), outcomes in self._open.items():
            if where != place:
                continue
            actual = {text for text in left if _key(text) == key}
            if actual not in outcomes:
                verdict.note("out of order", place, sorted(actual))
            for text in actual | outcomes[0] | outcomes[1]:
                rows.pop(text, None)
                left.pop(text, None)

    def _compare_turns(
        self, verdict: Verdict, place: Place, heard: Sequence[Said]
    ) -> None:
        expected = self._turns[place]
        tail = self._tails.get(place, [])
        if list(heard) in (expected, expected + tail):
            return
        whole = expected + tail
        missing = Counter(expected) - Counter(heard)
        extra = Counter(heard) - Counter(whole)
        for turn in missing.elements():
            verdict.note("lost", place, turn)
        for turn in extra.elements():
            verdict.note("duplicated", place, turn)
        if missing or extra:
            return
        for said, wanted in zip(heard, whole, strict=False):
            if said != wanted:
                verdict.note("out of order", place, said)
                return
        # All of it in order, and yet not all: half of the turn that was cut short.
        for turn in whole[len(heard) :]:
            verdict.note("lost", place, turn)


def _victim(rows: dict[str, Row], operation: Operation) -> str | None:
    if "previous" in operation:
        return operation["previous"] if operation["previous"] in rows else None
    if "old" in operation:
        return next((text for text in rows if operation["old"] in text), None)
    return None


def _place(operation: Operation) -> Place:
    return operation["theme"], operation["key"].partition("/")[0]


def _session(operation: Operation) -> Place:
    return operation["theme"], operation["session"]


def _spoken(operation: Operation) -> list[Said]:
    user, assistant = operation["said"]
    return [("user", user), ("assistant", assistant)]


def _key(content: str) -> str:
    """Return the key that an entry's text begins with."""
    return content[1:].partition(" ")[0]
