"""What is known of the themes in a statement, and what names mean in it.

A *theme* is a value of a table's distribution column. Equalities put themes into
classes; rows of two tables meet on one shard only if their themes are in the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pglast import ast

Theme = str
"""A name for the value of one distribution column, or of what it is compared with."""
Columns = dict[str, Theme | None]


@dataclass
class Source:
    """Something rows come from."""

    alias: str
    columns: Columns


@dataclass
class Scope:
    """What names mean in one query."""

    parts: Mapping[str, Part]
    outer: Scope | None
    limited: bool = False
    sources: list[Source] = field(default_factory=list)


@dataclass
class Part:
    """One part of a WITH: what it is, or what came of it."""

    query: ast.Node | None
    parts: Mapping[str, Part]
    columns: Columns


@dataclass
class Findings:
    """What is noteworthy in a statement, by rule."""

    joins: bool = False
    """Rows of two themes, or of two shards, are brought together."""
    moves: bool = False
    """A row's theme is changed."""
    spreads: bool = False
    """Rows of more than one theme may be written."""
    conflict: bool = False
    """ON CONFLICT holds no theme, or what is not immutable."""
    recurses: bool = False
    locks: bool = False
    """Rows are locked on more than one shard."""
    lateral: bool = False
    """A subquery with LIMIT looks at a row of the query around it."""
    alien: bool = False
    """No query: DDL, a block of code."""

    def broken(self) -> set[str]:
        """Return the names of the rules that do not hold."""
        return {name for name, value in vars(self).items() if value}


class Themes:
    """The themes of one statement, and which of them are equal."""

    def __init__(self) -> None:
        """Know none."""
        self._same: dict[Theme, Theme] = {}
        self._count = 0

    def new(self, what: str) -> Theme:
        """Return a theme that nothing is known of yet."""
        self._count += 1
        return f"{what} #{self._count}"

    def class_of(self, theme: Theme) -> Theme:
        """Return the head of a theme's class."""
        while theme in self._same:
            theme = self._same[theme]
        return theme

    def tie(self, one: Theme | None, other: Theme | None) -> None:
        """Note that two are equal; None is no theme."""
        if one is None or other is None:
            return
        # A parameter stays the head of its class, so that `_bound` can tell.
        low, high = sorted(
            (self.class_of(one), self.class_of(other)), key=lambda t: t.startswith("$")
        )
        if low != high:
            self._same[low] = high

    def bound(self, theme: Theme) -> bool:
        """Tell whether a theme is that of a parameter, and so one alone."""
        return self.class_of(theme).startswith("$")
