"""One batch at a time: journal → embed → one transaction → acknowledge.

Knows nothing of threads. It never loses a write: what meets an outage stays in the
journal, and only a write that the database refuses on its own merits leaves it for
the dead letters.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from hermes_pgmemory.breaker import CircuitBreaker
from hermes_pgmemory.codec import decode
from hermes_pgmemory.embed import Embedder
from hermes_pgmemory.errors import (
    ConfigError,
    DimensionMismatch,
    EmbedderUnavailable,
    ModelMismatch,
    PgMemoryError,
    Unavailable,
    UnstorableWrite,
)
from hermes_pgmemory.journal import Record
from hermes_pgmemory.metrics import EMBED_TEXTS, WRITER_BATCH_SECONDS, WRITES
from hermes_pgmemory.models import (
    Accepted,
    AddEntry,
    AddTurn,
    ReplaceEntry,
    Vector,
    Write,
    in_context,
)

EMBED_TIMEOUT_S: Final = 20.0
LOOK_UP_TIMEOUT_S: Final = 10.0
PATIENCE_S: Final = 2.0
"""Seconds one failed attempt and the pause after it may take for a retry."""

_KNOWN: Final = EMBED_TEXTS.labels(source="database")

log = logging.getLogger("hermes_pgmemory")


class Sink(Protocol):
    """Where batches go: the store, seen from here."""

    def apply(
        self,
        batch: Sequence[Accepted],
        vectors: Mapping[int, Vector],
        *,
        timeout_s: float = ...,
    ) -> int:
        """Write *batch* in one transaction, each write once."""
        ...

    def known_vectors(
        self, writes: Sequence[Write], *, timeout_s: float
    ) -> Mapping[int, Vector]:
        """Return vectors, by index, of texts that are stored already."""
        ...


class Queue(Protocol):
    """Where batches come from: a journal, or its dead letters."""

    def pending(self, limit: int) -> Sequence[Record]:
        """Return up to *limit* records, oldest first."""
        ...

    def acknowledge(self, records: Iterable[Record]) -> None:
        """Forget *records*, but for those buried meanwhile."""
        ...

    def bury(self, record: Record, reason: str) -> None:
        """Put one record aside that the database refuses."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterPolicy:
    """How the writer embeds; see the settings of the same names."""

    batch: int = 64
    embed_on_write: bool = True
    embed_retries: int = 2
    embed_backoff_s: float = 0.1


class Batcher:
    """Moves batches from a queue to the store."""

    def __init__(
        self,
        store: Sink,
        embedder: Embedder,
        embed_breaker: CircuitBreaker,
        policy: WriterPolicy,
        *,
        may_embed: Callable[[], bool] = lambda: True,
        when_misfit: Callable[[DimensionMismatch | ModelMismatch], None] = (
            lambda _: None
        ),
        unsealed: Callable[[str], str] = lambda text: text,
    ) -> None:
        """Borrow the services; they are closed by whoever made them.

        Args:
            store: Takes the batches.
            embedder: Gives them vectors.
            embed_breaker: Guards the embedder.
            policy: How to embed.
            may_embed: Asked before each batch: do the database's vectors fit the
                model?
            when_misfit: Told that the database does not take the model's vectors.
            unsealed: Returns a record as it may be stored: with no contact sealed
                in it.
        """
        self._store = store
        self._embedder = embedder
        self._embed_breaker = embed_breaker
        self._policy = policy
        self._outage = False
        self.bare = 0
        """How many rows that want a vector were stored without one."""
        self._may_embed = may_embed
        self._when_misfit = when_misfit
        self._unsealed = unsealed
        self._text_only = False

    def embed_no_more(self) -> None:
        """Store text alone from now on; what stays without a vector is healed later."""
        self._text_only = True

    def drain_once(self, journal: Queue) -> int:
        """Move one batch; return how many records left the journal.

        Raises:
            Unavailable: Nothing was acknowledged; the same call may succeed later.
        """
        records = journal.pending(self._policy.batch)
        batch = self._decode(journal, records)
        if batch:
            writes = [item.write for item, _ in batch]
            with WRITER_BATCH_SECONDS.time():
                vectors = self._embed(writes)
                self._store_or_bury(journal, batch, vectors)
            self.bare += sum(map(_wants_vector, writes)) - len(vectors)
        journal.acknowledge(records)
        return len(records)

    def _decode(
        self, journal: Queue, records: Sequence[Record]
    ) -> list[tuple[Accepted, Record]]:
        batch: list[tuple[Accepted, Record]] = []
        for record in records:
            try:
                write = decode(self._unsealed(record.text))
            except UnstorableWrite as exc:
                self._bury(journal, record, exc)
                continue
            accepted = Accepted(
                epoch=record.epoch, position=record.position, write=write
            )
            batch.append((accepted, record))
        return batch

    def _store_or_bury(
        self,
        journal: Queue,
        batch: Sequence[tuple[Accepted, Record]],
        vectors: dict[int, Vector],
    ) -> None:
        """Store *batch*; halve it around a write the database refuses."""
        try:
            stored = self._store.apply([item for item, _ in batch], vectors)
        except (DimensionMismatch, ModelMismatch) as exc:
            # Another model has been made the database's own since we looked.
            log.warning("storing %d rows without vectors: %s", len(vectors), exc)
            self.bare += len(vectors)
            self._when_misfit(exc)
            self._store_or_bury(journal, batch, {})
        except UnstorableWrite as exc:
            if len(batch) == 1:
                self._bury(journal, batch[0][1], exc)
                return
            half = len(batch) // 2
            left = {i: v for i, v in vectors.items() if i < half}
            right = {i - half: v for i, v in vectors.items() if i >= half}
            self._store_or_bury(journal, batch[:half], left)
            self._store_or_bury(journal, batch[half:], right)
        else:
            WRITES.labels(outcome="stored").inc(stored)

    def _bury(self, journal: Queue, record: Record, why: Exception) -> None:
        journal.bury(record, str(why))
        WRITES.labels(outcome="dead").inc()
        log.warning("one write was put aside as a dead letter: %s", why)

    def _embed(self, writes: Sequence[Write]) -> dict[int, Vector]:
        """Return vectors by place in *writes*; what cannot be embedded is left out.

        A row without a vector is found by its words and healed later; a row that
        waits for an embedder is found by nothing.
        """
        if not self._policy.embed_on_write:
            return {}
        places = [i for i, write in enumerate(writes) if _wants_vector(write)]
        if not places or not self._can_embed():
            return {}
        vectors = self._known(writes, places)
        places = [place for place in places if place not in vectors]
        answers = self.embed([_content(writes[i]) for i in places]) if places else ()
        if answers is not None:
            vectors |= {
                place: answer
                for place, answer in zip(places, answers, strict=True)
                if not isinstance(answer, PgMemoryError)
            }
        return vectors

    def _known(
        self, writes: Sequence[Write], places: Sequence[int]
    ) -> dict[int, Vector]:
        """Take what an earlier row has: a text told again costs no request.

        An outage of the database is met here, too, before anything is embedded.
        """
        found = self._store.known_vectors(
            [writes[place] for place in places], timeout_s=LOOK_UP_TIMEOUT_S
        )
        _KNOWN.inc(len(found))
        return {places[index]: vector for index, vector in found.items()}

    def embed(self, texts: Sequence[str]) -> Sequence[Vector | PgMemoryError] | None:
        """Embed *texts*; None when that is not possible now.

        A text the model refuses has an error in its place.
        """
        if not self._can_embed():
            return None
        try:
            vectors = self._request(texts)
        except (Unavailable, DimensionMismatch, ConfigError) as exc:
            self._note_outage(exc)
            return None
        self._note_outage(None)
        return vectors

    def _can_embed(self) -> bool:
        return not self._text_only and self._may_embed()

    def _note_outage(self, reason: Exception | None) -> None:
        """Tell once that texts go without vectors, and once that they do no more."""
        if reason is not None and not self._outage:
            log.warning("texts are stored without vectors, for now: %s", reason)
        elif reason is None and self._outage:
            log.warning("texts are embedded again; the others are made good")
        self._outage = reason is not None

    def _request(self, texts: Sequence[str]) -> Sequence[Vector | PgMemoryError]:
        with self._embed_breaker.guard():
            pause_s = self._policy.embed_backoff_s
            for retries_left in range(self._policy.embed_retries, -1, -1):
                started = time.monotonic()
                try:
                    return self._embedder.embed_documents(
                        texts, timeout_s=EMBED_TIMEOUT_S
                    )
                except EmbedderUnavailable as exc:
                    wait_s = exc.retry_after_s or pause_s
                    spent_s = time.monotonic() - started
                    # The batch is not searchable meanwhile: a slow failure or a
                    # long pause is answered by storing text and healing later.
                    if not retries_left or wait_s + spent_s > PATIENCE_S:
                        raise
                    time.sleep(wait_s)
                    pause_s *= 2
        raise AssertionError("the loop returns or raises")


def _content(write: Write) -> str:
    match write:
        case AddEntry() | ReplaceEntry():
            return write.content
        case AddTurn():
            return in_context(write.content, write.context)
        case _:
            return ""


def _wants_vector(write: Write) -> bool:
    match write:
        case AddTurn():
            return write.embed and bool(write.content.strip())
        case _:
            return bool(_content(write).strip())
