"""What is forgotten while rows are coming in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from time import monotonic

import psycopg
from moving_kit import WORK, turn

from hermes_pgmemory.store import Store
from hermes_pgmemory.store.forget import Mine
from hermes_pgmemory.store.moved import MovedTurn
from hermes_pgmemory.store.turns import turn_key

WAITING = """SELECT count(*) FROM pg_stat_activity
              WHERE datname = current_database() AND wait_event_type = 'Lock'"""


def until(condition) -> None:
    deadline, never = monotonic() + 30, Event()
    while not condition():
        assert monotonic() < deadline, "it never happened"
        never.wait(0.02)


def test_what_is_forgotten_while_it_is_being_kept_does_not_stay(new):
    database = new()
    moving, beside = database.store.moving, Store(database.dsn, pool_size=1)
    row = MovedTurn(write=turn("said before it was forgotten"))
    mine = Mine(theme=WORK, subjects=None)

    def forget() -> None:
        beside.forgetting.note([mine], timeout_s=60)
        line = beside.maintenance.open_run(
            "forget", "all", pattern=None, details={}, timeout_s=60
        )
        beside.forgetting.forget(mine, names=[WORK], line=line, timeout_s=60)

    with (
        closing(beside),
        psycopg.connect(database.dsn) as other,
        ThreadPoolExecutor(2) as threads,
    ):
        # The same turn, not yet committed, holds the import between its look and its
        # write.
        other.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content,"
            " turn_key, tsv) VALUES (%s, 's1', 'user', 'x', %s, '')",
            (WORK, turn_key(row.write)),
        )
        keeping = threads.submit(
            moving.keep, [row], runs={}, model="test", timeout_s=60
        )
        until(lambda: database.query(WAITING) == [1])
        forgotten = threads.submit(forget)
        until(lambda: forgotten.done() or database.query(WAITING) == [2])
        other.rollback()
        assert keeping.result() == set()
        forgotten.result()
    assert database.turns() == []
