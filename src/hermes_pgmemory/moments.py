"""Points in time as people and models write them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_MOMENT: Final = re.compile(
    r"""
    (?P<year>\d{4})
    (?: -(?P<month>\d{1,2})
    (?: -(?P<day>\d{1,2})
    (?: [T\ ](?P<hour>\d{1,2}):(?P<minute>\d\d)
    (?: :(?P<second>\d\d) (?:[.,](?P<fraction>\d{1,6})\d*)? )?
        \s*(?P<zone>Z|UTC|[+-]\d\d(?::?\d\d)?)?
    )? )? )?
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_KEPT: Final = (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class Period:
    """The time that a text names: a year, a month, a day, a minute, a second."""

    start: datetime
    end: datetime
    """When the next such period starts."""


def period(text: str) -> Period:
    """Read an ISO date or date-time, or the first parts of one; UTC if no zone is told.

    Raises:
        ValueError: It is nothing of the kind, or no such day or time exists.
    """
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError("not a date")
    part = found.groupdict()
    start = datetime(
        int(part["year"]),
        int(part["month"] or 1),
        int(part["day"] or 1),
        int(part["hour"] or 0),
        int(part["minute"] or 0),
        int(part["second"] or 0),
        int((part["fraction"] or "0").ljust(6, "0")),
        tzinfo=_zone(part["zone"]),
    )
    try:
        return Period(start, _end(start, part))
    except (OverflowError, ValueError):
        # The calendar ends with the year 9999.
        return Period(start, _LAST)


def keepable(at: datetime) -> datetime:
    """Return *at* in UTC.

    A database takes more than it can tell us again: one row of the year before the
    first would fail every search that finds it.

    Raises:
        ValueError: Not every zone has that moment between the years 1 and 9999.
    """
    first, last = _KEPT
    if not first <= at < last:
        raise ValueError("a time out of range")
    return at.astimezone(UTC)


def _zone(told: str | None) -> timezone:
    """Return the zone; ValueError for one of a day or more."""
    if told is None or told.upper() in ("Z", "UTC"):
        return UTC
    minutes = int(told[1:3]) * 60 + int(told[3:].lstrip(":") or 0)
    return timezone(timedelta(minutes=-minutes if told[0] == "-" else minutes))


def _end(start: datetime, part: dict[str, str | None]) -> datetime:
    if part["fraction"]:
        return start + timedelta(microseconds=1)
    for name in ("second", "minute"):
        if part[name]:
            return start + timedelta(**{f"{name}s": 1})
    if part["day"]:
        return start + timedelta(days=1)
    if part["month"] and start.month < 12:
        return start.replace(month=start.month + 1)
    return start.replace(year=start.year + 1, month=1)
