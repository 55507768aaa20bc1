"""From numbers to the geometry of a chart; templates draw it. Pure.

Widths are in percent of whatever place a chart gets, so that its words keep their size
on a phone; heights are in pixels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from hermes_pgmemory.dashboard.words import cut, short
from hermes_pgmemory.store.seen import Delegation, Hour

TALL: Final = 150.0
"""Pixels of the highest bar."""
ROW: Final = 30
"""Pixels between two nodes of a tree."""
COLUMN: Final = 230
"""Pixels between two levels of a tree."""
NODE: Final = 184
NODE_CHARS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a bar."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What happened in one span of time."""

    x: float
    width: float
    blocks: Sequence[Block]
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A label on an axis, in percent or pixels along it."""

    place: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A bar chart over time."""

    bars: Sequence[Bar]
    across: Sequence[Mark]
    upwards: Sequence[Mark]
    total: int
    height: float = TALL


def nice(most: float) -> float:
    """Return the least round number that is not below *most*: the top of an axis."""
    if most <= 4:
        return 4
    size = 10 ** (len(str(int(most))) - 1)
    return next(step * size for step in (1, 2, 4, 5, 6, 8, 10) if step * size >= most)


def hourly(hours: Iterable[Hour], *, until: datetime, count: int) -> Bars:
    """Draw what all themes got in each of the *count* hours before *until*."""
    first = until.replace(minute=0, second=0, microsecond=0) - timedelta(
        hours=count - 1
    )
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for hour in hours:
        place = int((hour.at - first) / timedelta(hours=1))
        if 0 <= place < count:
            sums[place][0] += hour.entries
            sums[place][1] += hour.turns
    top = nice(max((sum(pair) for pair in sums.values()), default=0))
    width = 100 / count
    bars = [
        _bar(first + timedelta(hours=n), (n * width, width), sums[n], top)
        for n in range(count)
    ]
    across = [
        Mark(place=(n + 0.5) * width, text=_hour(first + timedelta(hours=n)))
        for n in range(count)
        if (first + timedelta(hours=n)).hour % 12 == 0 and 1 < n < count - 2
    ]
    upwards = [
        Mark(place=TALL * (1 - part), text=short(top * part)) for part in (0.5, 1)
    ]
    total = sum(sum(pair) for pair in sums.values())
    return Bars(bars=bars, across=across, upwards=upwards, total=total)


def _hour(at: datetime) -> str:
    return f"{at:%H:%M}" if at.hour else f"{at:%a %-d %b}"


def _bar(
    at: datetime, place: tuple[float, float], counts: Sequence[int], top: float
) -> Bar:
    (x, width), (entries, turns) = place, counts
    high, low = TALL * turns / top, TALL * entries / top
    blocks = [
        Block(kind="turns", y=TALL - high, height=high),
        Block(kind="entries", y=TALL - high - low, height=low),
    ]
    title = f"{at:%a %-d %b, %H:%M} UTC: {entries:,} memories, {turns:,} turns"
    shown = [block for block in blocks if block.height]
    return Bar(x=x + width * 0.14, width=width * 0.72, blocks=shown, title=title)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """Days as bars in a line of text; pixels."""

    bars: Sequence[tuple[float, float, float]]
    """Left, top and height of each."""
    title: str
    width: int
    height: int = 24


def daily(hours: Iterable[Hour], *, since: datetime, days: int) -> dict[str, Spark]:
    """Draw each theme's days since a time, each on a scale of its own."""
    sums: Mapping[str, list[int]] = defaultdict(lambda: [0] * (days + 1))
    for hour in hours:
        place = (hour.at - since).days
        if 0 <= place <= days:
            sums[hour.theme][place] += hour.entries + hour.turns
    return {theme: _spark(values) for theme, values in sums.items()}


def _spark(values: Sequence[int]) -> Spark:
    top, height = max(values) or 1, 22.0
    bars = [
        (4.0 * n, 23 - max(1.5, height * value / top), max(1.5, height * value / top))
        for n, value in enumerate(values)
        if value
    ]
    total = sum(values)
    title = f"{total:,} in {len(values) - 1} days, {top:,} on the busiest"
    return Spark(bars=bars, title=title, width=4 * len(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A box of a tree: a theme, or a session."""

    x: int
    y: float
    text: str
    title: str
    theme: str
    session: str | None
    """None for a theme's own box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Who delegated to whom; pixels."""

    nodes: Sequence[Node]
    lines: Sequence[tuple[float, float, float, float]]
    width: int
    height: int


def tree(delegations: Sequence[Delegation]) -> Tree:
    """Lay out themes, the sessions that delegated, and what these delegated to."""
    grown = _Growing(delegations)
    for theme in dict.fromkeys(one.parent for one in delegations):
        grown.theme(theme)
    width = max((node.x for node in grown.nodes), default=0) + NODE + 2
    return Tree(
        nodes=grown.nodes, lines=grown.lines, width=width, height=grown.rows * ROW
    )


class _Growing:
    """A tree while it is laid out, from its leaves upwards."""

    def __init__(self, delegations: Sequence[Delegation]) -> None:
        self.nodes: list[Node] = []
        self.lines: list[tuple[float, float, float, float]] = []
        self.rows = 0
        self._below: dict[str, dict[str, Delegation]] = defaultdict(dict)
        for one in delegations:
            self._below[one.parent_session_id].setdefault(one.child_session_id, one)
        children = {one.child_session_id for one in delegations}
        self._tops: dict[str, list[str]] = defaultdict(list)
        for one in delegations:
            session = one.parent_session_id
            # One whose delegator is shown hangs below that, whatever its theme.
            if session not in children and session not in self._tops[one.parent]:
                self._tops[one.parent].append(session)
        self._seen: set[str] = set()

    def theme(self, theme: str) -> None:
        """Add a theme and all below it."""
        below = [self._session(top, theme, 1) for top in self._tops[theme]]
        if below:
            self._add(0, below, theme, theme, theme, None)

    def _session(self, session: str, theme: str, level: int) -> float:
        self._seen.add(session)
        below: list[float] = []
        for child, one in self._below[session].items():
            if child not in self._seen:
                below.append(self._session(child, one.child or theme, level + 1))
        return self._add(level, below, session, session, theme, session)

    def _add(
        self,
        level: int,
        below: Sequence[float],
        text: str,
        title: str,
        theme: str,
        session: str | None,
    ) -> float:
        """Add a box in the middle of those below it; return its middle's height."""
        if below:
            y = (below[0] + below[-1]) / 2
        else:
            y = self.rows * ROW + ROW / 2
            self.rows += 1
        x = level * COLUMN
        self.lines += [(x + NODE, y, x + COLUMN, other) for other in below]
        self.nodes.append(
            Node(
                x=x,
                y=y,
                text=cut(text, NODE_CHARS),
                title=title,
                theme=theme,
                session=session,
            )
        )
        return y
