"""Texts that no other check writes."""

from __future__ import annotations

import random
from dataclasses import dataclass

_SYLLABLES = [a + b for a in "bdfgklmnprtvz" for b in "aeiou"]
_chance = random.SystemRandom()


def word() -> str:
    """Make up a word; of letters alone, for digits may be taken for a number."""
    return "".join(_chance.choices(_SYLLABLES, k=5))


@dataclass(frozen=True)
class Fact:
    """Something to remember: ask for the topic, look for the proof."""

    topic: str
    proof: str

    @classmethod
    def new(cls, topic: str = "") -> Fact:
        """Make one up."""
        return cls(topic or word(), word())

    @property
    def note(self) -> str:
        """As an entry of MEMORY.md."""
        return f"The {self.topic} supplier ships by rail; ask there for {self.proof}."

    @property
    def said(self) -> tuple[str, str]:
        """As an exchange: the proof is in the user's words only."""
        return (
            f"Remember that the {self.topic} courier answers to the name {self.proof}.",
            f"Good, I know now whom to ask for when the {self.topic} courier calls.",
        )

    def among(self, texts: list[str]) -> list[str]:
        """Return the texts that hold the proof."""
        return [text for text in texts if self.proof in text]
