"""What a request asks for: its parameters, checked."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

from starlette.requests import Request

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.store.steps import FIRST, Place

MAX_DIGITS: Final = 19
"""Of a row's id."""

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


class Where(StrEnum):
    """What is searched."""

    ALL = "all"
    ENTRIES = "entries"
    TURNS = "turns"


class Which(StrEnum):
    """Which entries of a theme are shown."""

    ALL = "all"
    IN_USE = "in-use"
    RETIRED = "retired"

    @property
    def retired(self) -> bool | None:
        """The same as the store takes it."""
        return None if self is Which.ALL else self is Which.RETIRED


def word(request: Request, name: str) -> str | None:
    """Return a parameter; None where it is missing or blank."""
    return request.query_params.get(name, "").strip() or None


def needed(request: Request, name: str) -> str:
    """Return a parameter.

    Raises:
        BadRequest: It is missing.
    """
    if (given := word(request, name)) is None:
        raise BadRequest(f"this address lacks its {name!r}")
    return given


def choice(request: Request, name: str, default: ChoiceT) -> ChoiceT:
    """Return one of the values of *default*'s kind.

    Raises:
        BadRequest: It is none of them.
    """
    given = word(request, name)
    try:
        return default if given is None else type(default)(given)
    except ValueError as exc:
        raise BadRequest(f"{name}: {given!r} is none of its values") from exc


def integer(request: Request, name: str) -> int | None:
    """Return a whole number; None where it is missing.

    Raises:
        BadRequest: It is something else.
    """
    given = word(request, name)
    try:
        return None if given is None else int(given)
    except ValueError as exc:
        raise BadRequest(f"{name}: {given!r} is no number") from exc


def moment(request: Request, name: str) -> datetime | None:
    """Return a time; None where it is missing.

    Raises:
        BadRequest: It is something else, or lacks its time zone.
    """
    given = word(request, name)
    return None if given is None else _time(name, given)


def place(request: Request, name: str) -> Place:
    """Return where the page before ended, as `spelled` wrote it.

    Raises:
        BadRequest: It is something else.
    """
    if (given := word(request, name)) is None:
        return FIRST
    at, _, id_ = given.rpartition("~")
    # Longer ones are no row's, and cannot always be read.
    if not id_.isascii() or not id_.isdigit() or len(id_) > MAX_DIGITS:
        raise BadRequest(f"{name}: {given[:100]!r} is no place")
    return Place(at=_time(name, at), id=int(id_))


def spelled(at: datetime, id_: int) -> str:
    """Write a place for an address."""
    return f"{at.isoformat()}~{id_}"


def _time(name: str, given: str) -> datetime:
    try:
        at = datetime.fromisoformat(given)
    except ValueError as exc:
        raise BadRequest(f"{name}: {given!r} is no time") from exc
    if at.tzinfo is None:
        raise BadRequest(f"{name}: {given!r} has no time zone")
    return at
