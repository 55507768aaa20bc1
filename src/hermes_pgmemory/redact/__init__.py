"""Secrets out of a text, before it is embedded, stored or logged.

Replaced are the keys of the common providers, private key blocks, passwords in URLs
and connection strings, and whatever a name gives as a secret; each becomes
`[redacted <kind>]`, and all around it stays byte for byte. A text without a secret
comes back as it is. Hashes, UUIDs, encoded images and talk about passwords are no
secrets. What cannot be told from ordinary words is left: redaction is a second
fence, not permission to paste secrets.

A text is first asked for the few letters without which it cannot hold a secret;
nearly all have none and cost only that.
"""

from __future__ import annotations

from typing import Final

from hermes_pgmemory.redact.blocks import redact_pem, redact_url_passwords
from hermes_pgmemory.redact.labels import redact_labelled
from hermes_pgmemory.redact.tokens import redact_tokens

_ROUNDS: Final = 4
"""A removed secret may bare another one; more than two rounds are contrived."""


def redact(text: str) -> str:
    """Return *text* with its secrets replaced; redacting twice changes nothing."""
    for _ in range(_ROUNDS):
        after = _once(text)
        if after == text:
            break
        text = after
    return text


def _once(text: str) -> str:
    if "PRIVATE KEY" in text:
        text = redact_pem(text)
    if "://" in text and "@" in text:
        text = redact_url_passwords(text)
    return redact_tokens(redact_labelled(text))
