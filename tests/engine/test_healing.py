"""Rows without vectors get them, each once, however many processes are at it."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from uuid import uuid4

import psycopg
import pytest

from hermes_pgmemory import healing
from hermes_pgmemory.batcher import Batcher, WriterPolicy
from hermes_pgmemory.breaker import CircuitBreaker
from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import make_embedder
from hermes_pgmemory.errors import DatabaseUnavailable
from hermes_pgmemory.healing import Healer
from hermes_pgmemory.models import Accepted, AddEntry, Target, Theme

ROWS = 100


@pytest.fixture
def new_healer(store, endpoint):
    settings = Settings(embed_url=endpoint.url, embed_model="test")
    with closing(make_embedder(settings)) as embedder:
        batcher = Batcher(store, embedder, CircuitBreaker(), WriterPolicy())
        yield lambda: Healer(store, batcher, when_misfit=lambda _: None)


@pytest.fixture
def bare(store, dsn):
    """Store entries without vectors, and return how many are left so."""
    now, epoch = datetime.now(UTC), str(uuid4())
    notes = [
        AddEntry(theme=Theme("work"), target=Target.MEMORY, content=f"n{n}", at=now)
        for n in range(ROWS)
    ]
    store.apply(
        [Accepted(epoch=epoch, position=n, write=w) for n, w in enumerate(notes, 1)], {}
    )
    with psycopg.connect(dsn, autocommit=True) as conn:
        count = "SELECT count(*) FROM memory_entries WHERE embedding IS NULL"
        yield lambda: conn.execute(count).fetchone()[0]


def heal(healer: Healer) -> None:
    while healer.run() is not None:
        pass


def test_a_round_asks_for_each_row_once(bare, new_healer, endpoint):
    heal(new_healer())
    assert bare() == 0
    asked = [text for batch in endpoint.batches for text in batch]
    assert (len(asked), len(set(asked))) == (ROWS, ROWS)


def test_processes_begin_apart_and_a_failed_store_costs_no_row(
    bare, new_healer, endpoint, dsn, monkeypatch
):
    monkeypatch.setattr(healing, "TIMEOUT_S", 0.2)
    healers = [new_healer() for _ in range(4)]
    with psycopg.connect(dsn) as conn:
        conn.execute("LOCK memory_entries IN SHARE MODE")  # readers may, writers wait
        for healer in healers:
            with pytest.raises(DatabaseUnavailable):
                healer.run()
    assert len({batch[0] for batch in endpoint.batches}) > 1
    monkeypatch.setattr(healing, "TIMEOUT_S", 5)
    heal(healers[0])
    assert bare() == 0
