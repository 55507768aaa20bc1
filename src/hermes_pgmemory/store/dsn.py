"""Connection strings: what is wrong with one, and which words in it are secret.

libpq quotes connection strings in its messages, and a password with an unescaped
`@` or `/` leaks into the host name. So nothing of libpq's reaches a reader but
through `Dsn.redact`, and a string that was clearly cut in the wrong place is
refused before anyone connects with it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, quote_plus

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from hermes_pgmemory.errors import ConfigError

KEY: Final = "plugins.pgvector.dsn"
"""The setting that holds the connection string."""

BLANK: Final = "***"

_SECRET_KEYS: Final = ("password", "sslpassword", "oauth_client_secret")
_PLACE: Final = ("service", "host", "hostaddr", "port", "dbname", "user")
_DEFAULTS: Final = {"application_name": "hermes-pgmemory", "connect_timeout": "3"}
_RAW_SECRETS: Final = (
    re.compile(r"://[^/?#@:]*:([^@]*)@"),
    re.compile(r"(?:password|client_secret)\s*=\s*('(?:[^'\\]|\\.)*')"),
    re.compile(r"(?:password|client_secret)\s*=\s*([^\s&']+)"),
)
_URI: Final = re.compile(r"\s*postgres(?:ql)?://([^?]*)")
_PERCENT: Final = re.compile(r"%[0-9A-F]{2}")


@dataclass(frozen=True, slots=True)
class Dsn:
    """A connection string that libpq can parse."""

    text: str = field(repr=False)
    parameters: Mapping[str, str] = field(repr=False)
    """Our defaults, for what the string leaves open; both go to libpq."""
    secrets: tuple[str, ...] = field(repr=False)
    """Every spelling of every secret, longest first."""
    key: str = KEY
    """The setting it comes from."""

    def redact(self, text: str) -> str:
        """Blank this connection string's secrets, and the string itself, in *text*."""
        for secret in self.secrets:
            text = text.replace(secret, BLANK)
        return text


def parse(text: str, *, key: str = KEY) -> Dsn:
    """Take the connection string of the setting *key* apart.

    Raises:
        ConfigError: libpq cannot parse it, or would cut it in the wrong place. The
            message quotes nothing: what libpq says would show the password.
    """
    parts = _parts(text)
    # Not raised where libpq's own error is at hand: it would travel along as context.
    if parts is None:
        raise ConfigError({key: "not a connection string libpq can parse"})
    if _is_cut_wrong(text, parts):
        why = "cut in the wrong place; write @ in a URI's password as %40, / as %2F"
        raise ConfigError({key: why})
    defaults = {key: word for key, word in _DEFAULTS.items() if key not in parts}
    return Dsn(text=text, parameters=defaults, secrets=_secrets(text, parts), key=key)


def place_of(text: str, *, key: str = KEY) -> str:
    """Return a short name, 16 hex digits, for the database that *text* leads to.

    Passwords and other options do not count: a new password leads to the same place.

    Raises:
        ConfigError: As for `parse`.
    """
    parse(text, key=key)
    parts = _parts(text) or {}
    told = [parts.get(name, "") for name in _PLACE]
    return hashlib.blake2b("\x1f".join(told).encode(), digest_size=8).hexdigest()


def _parts(text: str) -> Mapping[str, str] | None:
    try:
        return {key: str(value) for key, value in conninfo_to_dict(text).items()}
    except (ProgrammingError, UnicodeError):
        return None


def _is_cut_wrong(text: str, parts: Mapping[str, str]) -> bool:
    if "\0" in text:
        return True
    ports = parts.get("port", "").split(",")
    if not all(port.isdecimal() or not port for port in ports):
        return True
    found = _URI.match(text)
    address = found[1] if found else ""
    authority, _, database = address.partition("/")
    return authority.count("@") > 1 or "@" in database


def _secrets(text: str, parts: Mapping[str, str]) -> tuple[str, ...]:
    words = {parts[key] for key in _SECRET_KEYS if parts.get(key)}
    if not words:
        return ()
    # As typed: someone may have encoded more, or less, than `quote` would.
    typed = {raw for pattern in _RAW_SECRETS for raw in pattern.findall(text)}
    known = {text.strip(), *typed, *(form for word in words for form in _encoded(word))}
    spellings = {form for word in known for form in _printed(word)}
    return tuple(sorted(spellings - {"", BLANK}, key=len, reverse=True))


def _encoded(word: str) -> set[str]:
    """Return *word* as a connection string may hold it."""
    quoted = {quote(word, safe=""), quote(word), quote_plus(word)}
    lower = {_PERCENT.sub(lambda hit: hit[0].lower(), form) for form in quoted}
    return {word, re.sub(r"(['\\])", r"\\\1", word), *quoted, *lower}


def _printed(word: str) -> set[str]:
    """Return *word* as it is, and as Python or JSON print it within other text."""
    # Which quote `repr` escapes depends on the text around.
    escaped = repr(f"'\"{word}")[4:-1]
    return {word, escaped, escaped.replace("\\'", "'"), json.dumps(word)[1:-1]}
