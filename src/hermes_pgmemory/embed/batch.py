"""Getting as many of a batch's texts embedded as the endpoint will take.

The endpoint may refuse a batch for its size, for one text's length, or for one
text that its model chokes on, and rarely says which. So a refused batch is halved
until the cause stands alone. No text is blamed before the endpoint has proved, in
the same call, that it embeds something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hermes_pgmemory.embed.client import TimedOut
from hermes_pgmemory.embed.wire import BadVector, Item, Refusal
from hermes_pgmemory.errors import EmbedderUnavailable, UnembeddableText
from hermes_pgmemory.models import Vector

Ask = Callable[[list[str]], list[Item]]
"""One request: as many items as texts, or Refusal, or EmbedderUnavailable."""

Outcome = Vector | UnembeddableText

CANARY: Final = "hello"
"""A text that any model embeds."""

SHORTEST_CUT: Final = 32
"""Characters below which a text is not cut further: then length is not the cause."""


class BatchLimit:
    """The largest batch worth sending, learned from one endpoint."""

    def __init__(self, largest: int = 512) -> None:
        """Start at *largest* texts a request."""
        self._cap = largest
        self._size = largest

    @property
    def size(self) -> int:
        """Texts to put into the next request, at least 1."""
        return self._size

    def refused(self, accepted: int) -> None:
        """Remember for good that more than *accepted* texts are refused."""
        self._cap = max(1, min(self._cap, accepted))
        self._size = min(self._size, self._cap)

    def slow(self, count: int) -> None:
        """Send fewer for a while: *count* texts took too long."""
        self._size = max(1, min(self._size, count // 2))

    def fits(self, count: int) -> None:
        """Grow back towards what is not refused: *count* texts came in time."""
        if count >= self._size:
            self._size = min(self._cap, self._size * 2)


class DocumentBatch:
    """One call's work on one batch."""

    def __init__(self, ask: Ask, limit: BatchLimit, *, canary: str) -> None:
        """Send with *ask*, in requests no larger than *limit*, which learns."""
        self._ask = ask
        self._limit = limit
        self._canary = canary
        self._proven = False
        self._refusals = 0

    def embed(self, texts: Sequence[str]) -> list[Outcome]:
        """Return an outcome for each text, in order.

        Raises:
            EmbedderUnavailable: The endpoint, not a text, is at fault.
        """
        outcomes: list[Outcome] = []
        while len(outcomes) < len(texts):
            start = len(outcomes)
            outcomes += self._request(list(texts[start : start + self._limit.size]))
        return outcomes

    def _request(self, texts: list[str]) -> list[Outcome]:
        try:
            items = self._send(texts)
        except Refusal as refusal:
            self._refusals += 1
            if len(texts) > 1:
                return self._halves(texts, refusal)
            return [self._alone(texts[0], refusal)]
        if len(texts) == 1:
            return [self._verdict(items[0])]
        return self._completed(texts, items)

    def _send(self, texts: list[str]) -> list[Item]:
        try:
            items = self._ask(texts)
        except TimedOut:
            self._limit.slow(len(texts))
            raise
        self._limit.fits(len(texts))
        self._proven = self._proven or any(isinstance(item, list) for item in items)
        return items

    def _halves(self, texts: list[str], refusal: Refusal) -> list[Outcome]:
        self._prove()
        half = (len(texts) + 1) // 2
        before = self._refusals
        outcomes = self.embed(texts[:half]) + self.embed(texts[half:])
        if refusal.blames_input and self._refusals == before:
            # Each half was welcome: it was the number of texts, not one of them.
            self._limit.refused(half)
        return outcomes

    def _completed(self, texts: list[str], items: list[Item]) -> list[Outcome]:
        """Ask once more, singly, for what the answer left out."""
        missing = sum(item is None for item in items)
        before = self._refusals
        outcomes = [
            self._request([text])[0] if item is None else self._verdict(item)
            for text, item in zip(texts, items, strict=True)
        ]
        if 2 * missing >= len(texts) and self._refusals == before:
            # It answers texts one by one and drops or confuses the rest.
            self._limit.refused(1)
        return outcomes

    def _alone(self, text: str, refusal: Refusal) -> Outcome:
        """Handle a text that was refused with no other to blame."""
        if refusal.too_long:
            return self._shortened(text, refusal)
        self._prove()
        if refusal.blames_input:
            return UnembeddableText(refusal.reason)
        # A 500 or a garbled answer may have been a hiccup.
        try:
            return self._verdict(self._send([text])[0])
        except Refusal as again:
            return UnembeddableText(again.reason)

    def _shortened(self, text: str, refusal: Refusal) -> Outcome:
        while refusal.too_long and len(text) > SHORTEST_CUT:
            text = text[: len(text) // 2]
            try:
                return self._verdict(self._send([text])[0])
            except Refusal as again:
                refusal = again
        self._prove()
        return UnembeddableText(refusal.reason)

    def _verdict(self, item: Item) -> Outcome:
        if isinstance(item, list):
            return item
        self._prove()
        what = item.reason if isinstance(item, BadVector) else "no vector"
        return UnembeddableText(f"the endpoint returns {what} for this text")

    def _prove(self) -> None:
        """Make sure that the endpoint embeds anything at all.

        Raises:
            EmbedderUnavailable: It does not.
        """
        if self._proven:
            return
        try:
            item = self._ask([self._canary])[0]
        except Refusal as refusal:
            raise refusal.unavailable() from None
        if not isinstance(item, list):
            what = item.reason if isinstance(item, BadVector) else "no vector"
            raise EmbedderUnavailable(f"the endpoint returns {what} for any text")
        self._proven = True
