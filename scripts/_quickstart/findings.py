"""From what was recalled to the figures: who found what, and who must not have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from _quickstart.evidence import Evidence, Recall
from _quickstart.minions import MINIONS, Call, Fact, Message, Minion


@dataclass(frozen=True, kw_only=True)
class Score:
    """How many of some questions were answered rightly."""

    right: int
    of: int

    @property
    def share(self) -> float:
        """From 0 to 1; 0 if nothing was asked."""
        return self.right / self.of if self.of else 0.0

    def __add__(self, other: Score) -> Score:
        """Count both."""
        return Score(right=self.right + other.right, of=self.of + other.of)

    def __str__(self) -> str:
        """Write it as people read it: 7/7."""
        return f"{self.right}/{self.of}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The figures of one theme."""

    theme: str
    own: Score
    """Its memories and spoken turns, asked for with the tools' default scope."""
    ambient: Score
    """Its memories, put before the model unasked."""
    everywhere: Score
    """What the other themes hold, asked for with scope=all."""
    leaks: tuple[str, ...]
    """Other themes' texts that it saw without asking for them."""
    revenants: tuple[str, ...]
    """Removed or replaced memories that came back."""


ENOUGH: Final = 0.99
"""Least share of questions that must be answered rightly."""

ENOUGH_UNASKED: Final = 0.5
"""The same for memories that come unasked, of each theme: not all must, for they come
only if they surely bear on the question."""

_NOTHING: Final = Score(right=0, of=0)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a whole run found."""

    entries: int
    """Memory entries of the three themes in the database."""
    turns: int
    """Their conversation turns, before any question was asked."""
    findings: tuple[Finding, ...]

    @property
    def own(self) -> Score:
        """Every theme's own memories and turns."""
        return sum((finding.own for finding in self.findings), _NOTHING)

    @property
    def ambient(self) -> Score:
        """Every theme's own memories, unasked."""
        return sum((finding.ambient for finding in self.findings), _NOTHING)

    @property
    def everywhere(self) -> Score:
        """What other themes hold, with scope=all."""
        return sum((finding.everywhere for finding in self.findings), _NOTHING)

    @property
    def leaks(self) -> list[str]:
        """What a theme saw of another without asking for it."""
        return [text for finding in self.findings for text in finding.leaks]

    def complaints(self) -> list[str]:
        """Return what is not as it must be, one line each; [] if all is well."""
        entries, turns = expected_rows()
        revenants = [text for finding in self.findings for text in finding.revenants]
        checks = [
            (self.entries == entries, f"{self.entries} entries instead of {entries}"),
            (self.turns == turns, f"{self.turns} turns instead of {turns}"),
            (self.own.share >= ENOUGH, f"themes found {self.own} of their own"),
            *(
                (
                    finding.ambient.share >= ENOUGH_UNASKED,
                    f"{finding.ambient} of {finding.theme} came unasked",
                )
                for finding in self.findings
            ),
            (not self.leaks, f"seen by another theme: {self.leaks}"),
            (self.everywhere.share >= ENOUGH, f"scope=all found {self.everywhere}"),
            (not revenants, f"removed or replaced, but found: {revenants}"),
        ]
        return [complaint for fine, complaint in checks if not fine]


def expected_rows() -> tuple[int, int]:
    """Return how many entries and turns the conversations leave behind.

    Of each message the user's words and the answer; neither is too short to be kept.
    """
    entries = sum(len(minion.memories) for minion in MINIONS)
    turns = sum(2 * len(minion.messages) for minion in MINIONS)
    return entries, turns


def script() -> dict[str, Sequence[Call]]:
    """Return what makes the model call tools, message by message."""
    return {
        message.text: message.calls
        for minion in MINIONS
        for message in (*minion.messages, *questions(minion))
        if message.calls
    }


def questions(minion: Minion) -> list[Message]:
    """Return what *minion* is asked: with tools first, then in plain words."""
    others = [other for other in MINIONS if other is not minion]
    foreign = [fact for other in others for fact in other.memories]
    spoken = [fact for other in others for fact in other.said]
    own = [*minion.memories, *minion.forgotten]
    return [
        Message(
            text=f"Look up what {minion.theme} knows.",
            calls=(
                *_lookups("recall_memory", own),
                *_lookups("recall_conversation", minion.said),
            ),
        ),
        Message(
            text=f"Does {minion.theme} know of the others?",
            calls=(
                *_lookups("recall_memory", foreign),
                *_lookups("recall_conversation", spoken),
            ),
        ),
        Message(
            text=f"Ask the whole fleet, {minion.theme}.",
            calls=(
                *_lookups("recall_memory", foreign, scope="all"),
                *_lookups("recall_conversation", spoken, scope="all"),
            ),
        ),
        *(Message(text=fact.question) for fact in minion.memories),
    ]


def _lookups(tool: str, facts: Iterable[Fact], **more: str) -> list[Call]:
    return [(tool, {"query": fact.question, **more}) for fact in facts]


def judge(minion: Minion, evidence: Evidence) -> Finding:
    """Count what *minion* found, missed, and should not have seen."""
    recalls = [recall for recall in evidence.recalls if recall.theme == minion.theme]
    by_default = [recall for recall in recalls if not recall.scope]
    everywhere = [recall for recall in recalls if recall.scope == "all"]
    ambient = {
        block.said: block.memory
        for block in evidence.ambient
        if block.theme == minion.theme
    }
    others = [other for other in MINIONS if other is not minion]
    unasked = [recall.result for recall in by_default] + list(ambient.values())
    remembered = [r.result for r in by_default if r.tool == "recall_memory"]
    return Finding(
        theme=minion.theme,
        own=_score((*minion.memories, *minion.said), by_default),
        ambient=Score(
            right=sum(
                fact.text in ambient.get(fact.question, "") for fact in minion.memories
            ),
            of=len(minion.memories),
        ),
        everywhere=_score(
            [fact for o in others for fact in (*o.memories, *o.said)], everywhere
        ),
        leaks=_seen((text for other in others for text in other.texts()), unasked),
        revenants=_seen(
            (fact.text for fact in minion.forgotten),
            [*remembered, *ambient.values()],
        ),
    )


def _score(facts: Sequence[Fact], recalls: Iterable[Recall]) -> Score:
    """Count the facts that the answers to their own question contain."""
    results: dict[str, str] = {}
    for recall in recalls:
        results[recall.query] = results.get(recall.query, "") + recall.result
    right = sum(fact.text in results.get(fact.question, "") for fact in facts)
    return Score(right=right, of=len(facts))


def _seen(texts: Iterable[str], results: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for text in texts if any(text in result for result in results))
