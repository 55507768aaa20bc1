"""JSON in our own tables that nests without measure, as others may have stored it.

What rows say is not left out in silence. So whoever reads such a value is told, in
words that lead to the row and show nothing of it.
"""

from __future__ import annotations

from typing import Final

from psycopg.abc import AdaptContext
from psycopg.types.json import set_json_loads

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.foreign_json import MAX_LEVELS, TooDeepError, parsed

LEVELS: Final = MAX_LEVELS - 1
"""A line of an export is one level itself, and `import` takes no more."""


def bound(context: AdaptContext) -> None:
    """Have JSON that is read in *context* nest at most `LEVELS` deep."""
    set_json_loads(_value, context)


def _value(document: str | bytes) -> object:
    try:
        return parsed(document, levels=LEVELS)
    except TooDeepError:
        size = len(document.encode() if isinstance(document, str) else document)
        raise BadRequest(
            f"JSON in this database nests more than {LEVELS} levels deep: its "
            f"octet_length(…::text) is {size}; make it flat, and try again"
        ) from None
