"""How a search goes about it: what is counted, and which sealed index helps.

A sealed index is an HNSW index over the rows up to a watermark, of one theme or of all;
`maintenance.index` builds them. New rows cost it nothing, and a search adds these, the
tail, exactly. What is known here may be a minute old or plainly wrong: it decides how
long an answer takes, never what the answer is.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any, Final, LiteralString

from hermes_pgmemory.store.connection import Begin, read
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.store.upkeep import NAMED, Table

PREFIX: Final = "pgmemory_sealed_"
ALL: Final = "all"
"""In place of a theme's mark: an index over every theme."""

MANY: Final = 2_000
"""Rows from which on a search estimates what it could count."""
MOST: Final = 50_000
"""Rows after which counting stops."""
SELECTIVE: Final = 5
"""A filter that leaves less than one row in so many is searched exactly."""
BREADTH: Final = 200
"""How many rows of a sealed index are looked at, at least (`hnsw.ef_search`): 98 to 99
of 100 neighbours are then found, in a few milliseconds."""
BROADEST: Final = 1_000
COMMON: Final = 0.005
"""Share of all rows from which on a word counts as common."""
BUDGET_ROWS: Final = 4_000
"""Rows that the words of a question may bring, as far as statistics tell."""

SHAPE_S: Final = 60.0
"""Seconds for which what the catalog says is believed."""
COUNT_S: Final = 600.0
"""The same for a large count; a small one changes faster and is cheap."""
KEPT_COUNTS: Final = 1_024

_NAME: Final = re.compile(PREFIX + r"(?P<table>[et])_(?P<mark>\w+?)_(?P<watermark>\d+)")
_WORD: Final = re.compile(r"\w+")
_LETTERS: Final = {Table.ENTRIES: "e", Table.TURNS: "t"}
_COUNT: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["count_entries"],
    Table.TURNS: QUERIES["count_turns"],
}
_COUNT_VISIBLE: Final[dict[Table, LiteralString]] = {
    Table.ENTRIES: QUERIES["count_visible_entries"],
    Table.TURNS: QUERIES["count_visible_turns"],
}
_FILTERS: Final = (
    "theme",
    "subject",
    "include_shared",
    "target",
    "since",
    "until",
    "role",
    "platform",
)
"""Parameters that decide which rows are visible; a session's are always few."""


def _beginning(word: str) -> str:
    return word[:2]


def mark_of(theme: str | None) -> str:
    """Return what names of indexes call a theme; None is all themes."""
    return ALL if theme is None else hashlib.sha256(theme.encode()).hexdigest()[:16]


def index_name(table: Table, theme: str | None, watermark: int) -> str:
    """Return the name of the index over a theme's rows up to *watermark*."""
    return f"{PREFIX}{_LETTERS[table]}_{mark_of(theme)}_{watermark}"


def parse_name(name: str) -> tuple[str, int] | None:
    """Return the mark and the watermark that an index's name holds, if it is ours."""
    found = _NAME.fullmatch(name)
    return found and (found["mark"], int(found["watermark"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the catalog says of one table."""

    kind: str
    """Type of its vectors: halfvec, or vector in an adopted database."""
    rows: int
    """As the planner knows it; 0 before the first ANALYZE."""
    watermarks: Mapping[str, int]
    """By mark, for the indexes that are complete."""
    iterative: bool
    """Whether pgvector can go on where filters leave too little of an index."""
    common: Mapping[str, Sequence[tuple[str, float]]] = field(
        default_factory=dict[str, list[tuple[str, float]]]
    )
    """Lexemes that many rows hold, and which share of all rows, by how they begin."""

    def common_in(self, text: str, runs: Sequence[str]) -> list[tuple[str, float]]:
        """Return those that *runs*, or the words of *text*, may become, and some more.

        Stemming changes how words end; one that begins otherwise, too, is taken for a
        rare one, which costs time only.
        """
        begun = {_beginning(word) for word in (*_WORD.findall(text.casefold()), *runs)}
        return [pair for start in begun for pair in self.common.get(start, ())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one search is to go about it."""

    kind: str
    rows: int | None = None
    """How many rows there are to choose from; None: so few that each is read."""
    watermark: int | None = None
    """Of the sealed index to use; None searches exactly."""
    iterative: bool = False
    budget: float | None = None
    """Which share of all rows common words may bring, among many rows."""
    common: Sequence[tuple[str, float]] = field(default=())
    """Words that many rows hold, and which share of all rows."""

    def parameters(self) -> dict[str, Any]:
        """Return what the search's statements take of it."""
        return {
            "rows": self.rows,
            "watermark": self.watermark,
            "budget": self.budget,
            "common": [lexeme for lexeme, _ in self.common],
            "shares": [share for _, share in self.common],
        }


class Planner:
    """What is known of a database, shared by the threads that search it."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._mutex = Lock()
        self._shapes: Mapping[Table, Shape] = {}
        self._expires = 0.0
        self._counts: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def plan(self, begin: Begin, table: Table, parameters: Mapping[str, Any]) -> Plan:
        """Choose how to search *table*; asks the database where it has forgotten.

        Args:
            begin: Begins a transaction.
            table: What is searched.
            parameters: The search's.
        """
        shape = self._shape(begin, table)
        plain = Plan(kind=shape.kind)
        if parameters.get("session_id") is not None:
            return plain
        theme: str | None = parameters["theme"]
        total = shape.rows if theme is None else 0
        if total < MOST:
            total = self._count(begin, _COUNT[table], (theme,), parameters)
        if total < MANY:
            return plain
        key = tuple(parameters.get(name) for name in _FILTERS)
        visible = self._count(begin, _COUNT_VISIBLE[table], key, parameters)
        if visible < MANY:
            return plain
        # Sealed indexes help where most of what they hold is visible.
        usable = visible == MOST or visible * SELECTIVE >= total
        return Plan(
            kind=shape.kind,
            rows=total if visible == MOST else visible,
            watermark=shape.watermarks.get(mark_of(theme)) if usable else None,
            iterative=shape.iterative,
            budget=BUDGET_ROWS / max(shape.rows, total),
            common=shape.common_in(parameters["text"], parameters["runs"]),
        )

    def _shape(self, begin: Begin, table: Table) -> Shape:
        now = monotonic()
        with self._mutex:
            known = self._shapes.get(table)
            if known is not None:
                if now < self._expires:
                    return known
                # The others go on with the old one meanwhile.
                self._expires = now + SHAPE_S
        shapes = read_shapes(begin)
        with self._mutex:
            self._shapes, self._expires = shapes, now + SHAPE_S
        return shapes[table]

    def _count(
        self,
        begin: Begin,
        statement: LiteralString,
        key: tuple[Any, ...],
        parameters: Mapping[str, Any],
    ) -> int:
        now = monotonic()
        with self._mutex:
            expires, rows = self._counts.get((statement, key), (0.0, 0))
        if now < expires:
            return rows
        asked: dict[str, Any] = {
            "session_id": None,
            **parameters,
            "exclude": [],
            "most": MOST,
        }
        rows = read(begin, statement, asked)[0]["rows"]
        with self._mutex:
            lasts = SHAPE_S if rows < MANY else COUNT_S
            self._counts[statement, key] = (now + lasts, rows)
            self._counts.move_to_end((statement, key))
            while len(self._counts) > KEPT_COUNTS:
                self._counts.popitem(last=False)
        return rows


def read_shapes(begin: Begin) -> dict[Table, Shape]:
    """Ask the catalog about both tables."""
    found = read(begin, QUERIES["shape"], {"common": COMMON})
    shapes: dict[Table, Shape] = {}
    for row in found:
        marks = filter(None, map(parse_name, row["sealed"]))
        common: dict[str, list[tuple[str, float]]] = {}
        for lexeme, share in zip(
            row["lexemes"] or (), row["shares"] or (), strict=True
        ):
            common.setdefault(_beginning(lexeme), []).append((lexeme, share))
        version = re.findall(r"\d+", row["extension"] or "")
        shapes[NAMED[row["table"]]] = Shape(
            kind=row["kind"] or "halfvec",
            rows=row["rows"],
            # Of two, while one takes the other's place, the one that holds more.
            watermarks=dict(sorted(marks, key=lambda mark: mark[1])),
            iterative=tuple(map(int, version[:2])) >= (0, 8),
            common=common,
        )
    return shapes
