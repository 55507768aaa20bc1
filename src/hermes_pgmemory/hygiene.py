"""What any text goes through before it is stored, embedded or asked."""

from __future__ import annotations

from typing import Final

from hermes_pgmemory.redact import redact
from hermes_pgmemory.text import clean

MAX_ENTRY_CHARS: Final = 200_000
MAX_TURN_CHARS: Final = 100_000
MAX_QUERY_CHARS: Final = 8_000


def storable(text: object, *, max_chars: int) -> str:
    """Return *text* cleaned, capped, without secrets and outer white space.

    A question goes through the same: it is sent to the same endpoint, and a secret
    in it could only match one that is stored redacted.
    """
    kept = clean(text, max_chars=max_chars)
    return redact(kept).strip() if kept else ""
