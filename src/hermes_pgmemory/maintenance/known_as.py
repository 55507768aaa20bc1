"""Whom an operator means: from a phone number, a handle or a session key to contacts.

The hooks make a contact from what the host tells: a platform, a kind of chat, and an
id, or the key of the session (`identity`). Of these an operator knows one thing, so
each way in which the host may have told it is tried, through the very same code. What
nobody ever said under such a contact has no rows; those that have are the contact's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from hermes_pgmemory import identity
from hermes_pgmemory.contacts import Contact
from hermes_pgmemory.identity import LOCAL, Policy
from hermes_pgmemory.key_text import fold
from hermes_pgmemory.session_keys import PLATFORMS

_OPEN: Final = Policy(aliases={}, allowed_themes=(), bench_mode="bucket")
_NATIVE_FIELDS: Final = 5
"""agent, profile, platform, type, chat."""
_TYPES: Final = ("dm", "group", "channel", "thread")
_PROFILE: Final = "main"
"""Any will do: a contact is the same for all profiles."""
_PHONE: Final = re.compile(r"[+\d][\d\s()./-]{5,}\d")
_WHATSAPP: Final = ("@s.whatsapp.net", "@c.us", "@lid")

Told = dict[str, Any]
"""What the host may tell of a run, by the names of `identity.resolve`."""


def contacts(known_as: str, *, platform: str | None = None) -> set[Contact]:
    """Return every contact that *known_as* may stand for.

    Args:
        known_as: A phone number, a user or chat id, a handle, an address, or a session
            key, as the platform or the host spells it.
        platform: Only contacts of this one; None tries all.
    """
    wanted = None if platform is None else fold(platform)
    found = (_contact(told) for told in _ways(known_as.strip(), wanted))
    return {contact for contact in found if contact is not None}


def _contact(told: Told) -> Contact | None:
    said = dict.fromkeys(_SAID) | told
    return identity.resolve(**said, policy=_OPEN).contact


_SAID: Final = (
    *("gateway_session_key", "agent_identity", "agent_workspace", "platform"),
    *("chat_type", "user_id", "user_id_alt", "chat_id"),
)


def _ways(known_as: str, wanted: str | None) -> Iterator[Told]:
    if not known_as:
        return
    yield from _as_session_key(known_as, wanted)
    name, _, rest = known_as.partition(":")
    ids = {known_as, rest} if fold(name) in PLATFORMS and rest else {known_as}
    for one in ids:
        for platform, spelling in product(sorted(PLATFORMS), _spellings(one)):
            if wanted in (None, platform):
                yield from _as_id(platform, spelling)
        for spelling in _spellings(one):
            yield from _as_api_key(spelling, wanted)


def _as_session_key(key: str, wanted: str | None) -> Iterator[Told]:
    """Yield what the host tells of a chat whose key this is."""
    fields = key.split(":")
    if len(fields) < _NATIVE_FIELDS or fields[0] != "agent":
        return
    platform, kind, chat = fields[2:5]
    if wanted not in (None, fold(platform)):
        return
    ids = (None, chat, ":".join(fields[4:]))
    for user, room in product(ids, ids):
        yield {
            "gateway_session_key": key,
            "platform": platform,
            "chat_type": kind,
            "user_id": user,
            "chat_id": room,
        }


def _as_id(platform: str, one: str) -> Iterator[Told]:
    """Yield what the host tells of a chat with, or in, an id of a platform."""
    for kind in _TYPES:
        told = {"platform": platform, "chat_type": kind}
        yield {**told, "user_id": one}
        yield {**told, "chat_id": one}
        key = f"agent:{_PROFILE}:{platform}:{kind}:{one}"
        yield {**told, "gateway_session_key": key}


def _as_api_key(one: str, wanted: str | None) -> Iterator[Told]:
    """Yield what the host tells of a client that names its session so itself."""
    for local in (*sorted(LOCAL), ""):
        if wanted in (None, local):
            yield {"platform": local, "gateway_session_key": one}
            for platform in sorted(PLATFORMS) if local == "api_server" else ():
                yield {"platform": local, "gateway_session_key": f"{platform}:{one}"}


def _spellings(one: str) -> list[str]:
    """Return an id as platforms may spell it."""
    spellings = [one]
    bare = one
    for ending in _WHATSAPP:
        bare = bare.removesuffix(ending)
    if bare != one:
        spellings.append(bare)
    if _PHONE.fullmatch(bare):
        digits = "".join(char for char in bare if char.isdigit())
        spellings += [digits, f"+{digits}", *(digits + end for end in _WHATSAPP)]
    elif bare.startswith("@"):
        spellings.append(bare[1:])
    else:
        spellings.append(f"@{bare}")
    return list(dict.fromkeys(spellings))
