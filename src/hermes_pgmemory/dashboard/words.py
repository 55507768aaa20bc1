"""How numbers, times and texts are written on a page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Protocol, TypeVar
from urllib.parse import urlencode

from markupsafe import Markup

DASH = "\N{EN DASH}"
"""Stands for what is not known."""
MINUS = "\N{MINUS SIGN}"
_UNITS = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def number(value: float) -> str:
    """Write a count with separators: 12,345."""
    return f"{value:,.0f}"


def short(value: float) -> str:
    """Write a count for a small place: 950, 12.3k, 4.1M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            digits = f"{value / size:.1f}".removesuffix(".0")
            return f"{digits}{unit}"
    return f"{value:.0f}"


def megabytes(count: int) -> str:
    """Write a size: 12 MB, 3.4 GB."""
    if count >= 1_000_000_000:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1_000_000 else f"{count / 1e3:.0f} kB"


def share(value: float | None) -> str:
    """Write a share in [0, 1] with two digits; what is unknown is a dash."""
    return DASH if value is None else f"{value:.2f}".replace("-", MINUS)


def change(value: float) -> str:
    """Write a difference with its sign and two digits."""
    return f"{value:+.2f}".replace("-", MINUS)


def span(seconds: float) -> str:
    """Write a duration in its largest unit: 3 h."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return "0 s"


def ago(at: datetime | None, now: datetime | None = None) -> Markup:
    """Write a time as its age, with the time itself for who points at it."""
    if at is None:
        return Markup.escape(DASH)
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    told = "just now" if 0 <= seconds < 1 else f"{span(abs(seconds))} ago"
    if seconds < 0:
        told = f"in {span(-seconds)}"
    return _time(at, told)


def moment(at: datetime) -> Markup:
    """Write a time to the minute, in UTC."""
    return _time(at, f"{at.astimezone(UTC):%-d %b %Y, %H:%M}")


def _time(at: datetime, told: str) -> Markup:
    utc = at.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        utc.isoformat(timespec="seconds"), f"{utc:%Y-%m-%d %H:%M:%S} UTC", told
    )


def cut(text: str, longest: int) -> str:
    """Cut the middle out of a long name: its end often tells names apart."""
    if len(text) <= longest:
        return text
    head = (longest - 1) * 2 // 3
    return f"{text[:head]}…{text[head + 1 - longest :]}"


def url(path: str, **query: object) -> str:
    """Return *path* with those of *query* that are not None."""
    given = {key: str(value) for key, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


class _Row(Protocol):
    """What may belong to a contact."""

    @property
    def private(self) -> bool: ...


RowT = TypeVar("RowT", bound=_Row)


def folded(
    rows: Iterable[RowT], *, show_private: bool
) -> Iterator[tuple[int, RowT | None]]:
    """Put rows that nobody may read, and that follow each other, into one.

    Yields:
        0 and a row to show, or how many rows are hidden in this place and None.
    """
    hidden = 0
    for row in rows:
        if row.private and not show_private:
            hidden += 1
            continue
        if hidden:
            yield hidden, None
            hidden = 0
        yield 0, row
    if hidden:
        yield hidden, None
