"""Why there is nothing to show, as a status and a line for people."""

from __future__ import annotations

from http import HTTPStatus

from starlette.exceptions import HTTPException

from hermes_pgmemory.errors import Rejected, Unavailable


def explained(exc: Exception) -> tuple[int, str]:
    """Return the HTTP status that fits, and what to tell."""
    if isinstance(exc, HTTPException):
        unknown = "The dashboard has no such page."
        usual = HTTPStatus(exc.status_code).phrase
        return exc.status_code, unknown if exc.detail == usual else exc.detail
    if isinstance(exc, Unavailable):
        return HTTPStatus.SERVICE_UNAVAILABLE, str(exc)
    if isinstance(exc, Rejected):
        return HTTPStatus.BAD_REQUEST, str(exc)
    return HTTPStatus.INTERNAL_SERVER_ERROR, str(exc)
