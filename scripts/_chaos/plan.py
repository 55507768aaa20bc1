"""What happens in which round, and when: the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

AGENTS: Final = ("marketing", "sales", "support")
SPAN_S: Final = (1.5, 2.5)
"""How long a round lasts from its writers' first writes on, in seconds."""


class Fault(StrEnum):
    """Everything that is done to a round."""

    KILL_WRITER = "kill a writer"
    KILL_ALL = "kill all writers"
    KILL_SERVER = "kill PostgreSQL"
    RESTART_SERVER = "restart PostgreSQL"
    TERMINATE = "terminate all backends"
    CUT = "cut all connections"
    HALT = "halt all connections"
    DEAFEN = "swallow PostgreSQL's answers, then cut"
    EMBED_HANGS = "embedder hangs"
    EMBED_RUBBISH = "embedder answers rubbish"
    EMBED_BUSY = "embedder answers 429"
    EMBED_BROKEN = "embedder answers 500"
    EMBED_LENGTH = "embedder answers other dimensions"
    EMBED_DIES = "embedder dies"


class Ending(StrEnum):
    """How a writer ends its round."""

    SHUTDOWN = "shutdown"
    EXIT = "exit"
    KILL = "kill"


@dataclass(frozen=True, slots=True)
class Event:
    """One fault: when it begins, for how long, and whom it meets."""

    at_s: float
    fault: Fault
    lasts_s: float
    victims: tuple[str, ...]
    """Which writers, in the order in which they start again."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round."""

    number: int
    span_s: float
    events: tuple[Event, ...]
    endings: dict[str, Ending]
    dark: bool
    """Whether nobody reaches the database in this whole round."""
    outlasting: bool
    """Whether the faults outlast the writers, so that journals are left behind."""
    kill_drainer_after_s: float | None


def rounds(seed: int, count: int) -> Iterator[Round]:
    """Yield *count* rounds; a longer run begins like a shorter one."""
    chance = random.Random(f"plan {seed}")
    deck: list[Fault] = []
    for number in range(1, count + 1):
        span_s = chance.uniform(*SPAN_S)
        dark = chance.random() < 0.3
        # In the dark, agents come and go and inherit each other's journals.
        faults = [Fault.KILL_WRITER] * 2 + [Fault.KILL_ALL] * (2 if dark else 0)
        for _ in range(3):
            if not deck:
                # Dealt like cards, so that a few rounds see every kind.
                deck = [fault for fault in Fault if fault is not Fault.KILL_WRITER]
                chance.shuffle(deck)
            faults.append(deck.pop())
        events = [_event(chance, fault, span_s) for fault in faults]
        yield Round(
            number=number,
            span_s=span_s,
            events=tuple(sorted(events, key=lambda event: event.at_s)),
            endings={agent: chance.choice(list(Ending)) for agent in AGENTS},
            dark=dark,
            outlasting=dark or chance.random() < 0.3,
            kill_drainer_after_s=chance.uniform(0.5, 1.5)
            if chance.random() < 0.3
            else None,
        )


def _event(chance: random.Random, fault: Fault, span_s: float) -> Event:
    everyone = fault is Fault.KILL_ALL
    return Event(
        at_s=chance.uniform(0, span_s),
        fault=fault,
        lasts_s=chance.uniform(0.05, 0.2 if everyone else 1.2),
        victims=tuple(chance.sample(AGENTS, len(AGENTS) if everyone else 1)),
    )
