"""Who belongs to the fleet, and what each may see: the same for the same seed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

BUCKET: Final = "whatsapp-dm"
"""The theme of everybody's direct messages."""
TEAM_SIZE: Final = 5
_NAME: Final = re.compile(r"minion-\d+")


class Kind(StrEnum):
    """Where a minion's memories go."""

    OWN = "own"
    """A theme of its own."""
    TEAM = "team"
    """A theme that a few minions share, on whichever hosts."""
    CHAT = "chat"
    """The bucket of direct messages, as one person's private rows."""


@dataclass(frozen=True, slots=True)
class Minion:
    """One agent of the fleet."""

    name: str
    kind: Kind
    theme: str
    host: int
    peers: tuple[str, ...]
    """Whose memories it may see when it asks for its own theme's."""

    @property
    def session(self) -> str:
        """Its session, named as the host does it: other names hide in chats."""
        return f"20260101_000000_{int(self.name.removeprefix('minion-')):06x}"

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Minion:
        """Take what `to_json` returned."""
        return cls(**data | {"kind": Kind(data["kind"]), "peers": (*data["peers"],)})


def roster(count: int, hosts: int, seed: int) -> list[Minion]:
    """Return *count* minions, spread over *hosts* hosts.

    Of eight, five have a theme of their own, two share one with their team, and one
    is a private chat's.
    """
    kinds = [_kind(number) for number in range(count)]
    random.Random(f"roster {seed}").shuffle(kinds)
    names = [f"minion-{number:03d}" for number in range(count)]
    together = [n for n, kind in zip(names, kinds, strict=True) if kind is Kind.TEAM]
    teams = {name: place // TEAM_SIZE for place, name in enumerate(together)}
    fleet: list[Minion] = []
    for number, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        theme, peers = name, [name]
        if kind is Kind.TEAM:
            theme = f"team-{teams[name]}"
            peers = [other for other in together if teams[other] == teams[name]]
        elif kind is Kind.CHAT:
            theme = BUCKET
        fleet.append(Minion(name, kind, theme, number % hosts, tuple(peers)))
    return fleet


def _kind(number: int) -> Kind:
    match number % 8:
        case 7:
            return Kind.CHAT
        case 2 | 5:
            return Kind.TEAM
        case _:
            return Kind.OWN


def authors(text: str) -> set[str]:
    """Return the names of the minions that *text* comes from."""
    return set(_NAME.findall(text))


def strangers(text: str, allowed: Iterable[str]) -> set[str]:
    """Return whose words *text* holds, but for those *allowed*."""
    return authors(text) - set(allowed)
