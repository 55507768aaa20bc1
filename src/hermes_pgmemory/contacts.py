"""Contacts: whom a private row is about, hashed and never shown."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final, NoReturn

from hermes_pgmemory.models import Subject

MIN_KEY_BYTES: Final = 16
"""A shorter key would let anyone try every phone number against a subject."""

_MADE_UP: Final = re.compile(
    r"20\d{6}_\d{6}(_[0-9a-f]{4,12})?|bg_\d{6}_[0-9a-f]{6}|api-[0-9a-f]{16}"
    r"|(run_)?[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|chat-[0-9a-f]{32}"
)
"""Session ids that the host, or `veiled`, makes up: they tell nothing of a contact."""

SEALED: Final = "sealed-"
"""How everything begins that is hidden until the database's key is known."""
_TAG_BYTES: Final = 16
_TOKEN: Final = re.compile(rf"{SEALED}(who|chat)-((?:[0-9a-f]{{2}}){{{_TAG_BYTES},}})")


class Contact:
    """Whom a governed row is about; never shown, only hashed.

    Equal contacts are one person, or one group, on one platform.
    """

    __slots__ = ("_text",)

    def __init__(self, *parts: str) -> None:
        """Keep the identifying *parts*, most general first."""
        self._text = "\x1f".join(parts)

    def subject(self, key: bytes) -> Subject:
        """Return the keyed hash that rows carry in this contact's place.

        Args:
            key: The database's secret, at least `MIN_KEY_BYTES` bytes.

        Raises:
            ValueError: *key* is too short to hide anything.
        """
        if len(key) < MIN_KEY_BYTES:
            raise ValueError(f"a subject's key needs {MIN_KEY_BYTES} bytes or more")
        secret = key if len(key) <= 64 else hashlib.blake2b(key).digest()
        text = self._text.encode("utf-8", "surrogatepass")
        return Subject(hashlib.blake2b(text, key=secret, digest_size=16).hexdigest())

    def sealed(self, stand_in: bytes) -> Subject:
        """Return what stands for the subject until `unsealed` can make it."""
        return Subject(_sealed("who", self._text, stand_in))

    def __eq__(self, other: object) -> bool:
        """Compare what the contacts identify."""
        return self._text == other._text if isinstance(other, Contact) else False

    def __hash__(self) -> int:
        """Hash for sets within this process."""
        return hash(self._text)

    def __repr__(self) -> str:
        """Hide what the contact identifies, in `str` too."""
        return "Contact(hidden)"

    def __format__(self, spec: str) -> str:
        """Hide what the contact identifies; widths work."""
        return format(repr(self), spec)

    def __copy__(self) -> Contact:
        """Return itself: a contact does not change."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Contact:
        """Return itself: a contact does not change."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: what identifies people stays in this process."""
        raise TypeError("a contact is never written anywhere")


def veiled(session_id: str, key: bytes) -> str:
    """Return a chat's session id so that it names nobody.

    Clients of the API server may name a session after its chat. Whatever the host did
    not make up itself becomes its hash under the database's *key*: the same session
    is the same one again, and nobody can tell which. Veiling twice changes nothing.
    """
    if not session_id or _MADE_UP.fullmatch(session_id):
        return session_id
    text = session_id.encode("utf-8", "surrogatepass")
    return f"chat-{hashlib.blake2b(text, key=key[:64], digest_size=16).hexdigest()}"


def sealed(session_id: str, stand_in: bytes) -> str:
    """Return a chat's session id so that only `unsealed` can veil it; see there."""
    if not session_id or _MADE_UP.fullmatch(session_id):
        return session_id
    return _sealed("chat", session_id, stand_in)


def unsealed(text: str, *, stand_in: bytes, key: bytes) -> str:
    """Return *text* with all in it that was sealed hashed by the database's *key*.

    What identifies a contact is sealed where that key is not known yet, under a
    *stand_in* of the same home. What another stand-in sealed stays as it is, and so
    does what only looks sealed.
    """

    def settle(found: re.Match[str]) -> str:
        name = _opened(found[1], bytes.fromhex(found[2]), stand_in)
        if name is None:
            return found[0]
        return Contact(name).subject(key) if found[1] == "who" else veiled(name, key)

    return _TOKEN.sub(settle, text) if SEALED in text else text


def _sealed(kind: str, text: str, stand_in: bytes) -> str:
    """Encrypt *text*; the same text always in the same way, as one id is one id."""
    plain = text.encode("utf-8", "surrogatepass")
    tag = _tag(kind, plain, stand_in)
    return f"{SEALED}{kind}-{(tag + _masked(plain, tag, stand_in)).hex()}"


def _opened(kind: str, token: bytes, stand_in: bytes) -> str | None:
    tag, body = token[:_TAG_BYTES], token[_TAG_BYTES:]
    plain = _masked(body, tag, stand_in)
    if not hmac.compare_digest(tag, _tag(kind, plain, stand_in)):
        return None
    return plain.decode("utf-8", "surrogatepass")


def _tag(kind: str, plain: bytes, stand_in: bytes) -> bytes:
    return hashlib.blake2b(
        plain, key=stand_in, digest_size=_TAG_BYTES, person=kind.encode()
    ).digest()


def _masked(text: bytes, tag: bytes, stand_in: bytes) -> bytes:
    stream = hashlib.shake_256(stand_in + tag).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))
