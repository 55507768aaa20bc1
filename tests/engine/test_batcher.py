"""From the journal to the real store, batch by batch."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest

from hermes_pgmemory.batcher import Batcher, WriterPolicy
from hermes_pgmemory.breaker import CircuitBreaker
from hermes_pgmemory.codec import encode
from hermes_pgmemory.embed.unusable import UnusableEmbedder
from hermes_pgmemory.journal import Journal, inspect
from hermes_pgmemory.models import AddEntry, Target, Theme


@pytest.fixture
def journal(tmp_path):
    journal = Journal.claim(tmp_path / "journal", quota_bytes=1 << 20)
    yield journal
    journal.close()


@pytest.fixture
def batcher(store):
    embedder = UnusableEmbedder("test", "not needed here")
    policy = WriterPolicy(embed_on_write=False)
    return Batcher(store, embedder, CircuitBreaker(), policy)


def note(content: str) -> str:
    return encode(
        AddEntry(
            theme=Theme("work"),
            target=Target.MEMORY,
            content=content,
            at=datetime.now(UTC),
        )
    )


@pytest.mark.parametrize(
    "bad",
    [note("a NUL: \x00"), "not a record", '{"w":"new"}'],
    ids=["refused", "damaged", "newer"],
)
def test_a_write_that_can_never_be_stored_is_put_aside_alone(
    batcher, journal, dsn, tmp_path, bad
):
    journal.append([*map(note, "abc"), bad, *map(note, "defg"), bad, note("h")])
    while batcher.drain_once(journal):
        pass
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT content FROM memory_entries ORDER BY id")
        assert [content for (content,) in rows] == list("abcdefgh")
    assert journal.depth == 0
    assert inspect(tmp_path / "journal").dead_letters == 2
