"""`convert`, beside living agents, and killed at the worst moments."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import uuid4

import adoption_kit as kit
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermes_pgmemory.models import (
    Accepted,
    AddEntry,
    AddTurn,
    ReplaceEntry,
    Role,
    Target,
    Theme,
)
from hermes_pgmemory.store import Store, Table, convert, migrate

WORK = Theme("work")
VECTORS = """
SELECT 'entry', id, embedding::halfvec::text FROM memory_entries
 UNION ALL
SELECT 'turn', id, embedding::halfvec::text FROM conversations
 ORDER BY 1, 2
"""
KIND = """
SELECT relname::text, format_type(atttypid, atttypmod)
  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
 WHERE attname = 'embedding' AND relkind = 'r' ORDER BY 1
"""
BEGUN = """
SELECT count(*) FROM pg_attribute
 WHERE attname = 'embedding_half' AND NOT attisdropped
   AND attrelid IN ('memory_entries'::regclass, 'conversations'::regclass)
"""
OLD = [("conversations", "vector(768)"), ("memory_entries", "vector(768)")]
NEW = [("conversations", "halfvec(768)"), ("memory_entries", "halfvec(768)")]


def nearest(store, n):
    found = store.search_entries(kit.asked(vector=kit.vector(n)), timeout_s=10)
    return [hit.content for hit in found]


class TestConverting:
    def test_a_rehearsal_counts_and_changes_nothing(self, adopted, run):
        was = kit.shape(adopted)
        status, out, err = run("convert", "--json", dsn=adopted)
        told = json.loads(out)
        assert (status, err) == (0, "")
        assert told["executed"] is False
        assert told["tables"]["memory_entries"]["affected"] == 159
        assert told["tables"]["conversations"]["affected"] == 152
        assert kit.shape(adopted) == was
        assert "add --execute" in run("convert", dsn=adopted)[1]

    def test_it_ends_as_a_fresh_database_with_every_vector(
        self, adopted, run, dsn_of, store_on
    ):
        before = kit.query(adopted, VECTORS)
        status, out, _ = run("convert", "--execute", "--json", dsn=adopted)
        told = json.loads(out)
        assert (status, told["executed"], told["affected"]) == (0, True, 311)
        assert kit.query(adopted, KIND) == NEW
        assert kit.query(adopted, VECTORS) == before
        done, fresh = kit.shape(adopted), kit.shape(dsn_of(kit.DIMENSION))
        for name in done:
            assert done[name] == fresh[name], name
        assert (
            kit.query(adopted, "SELECT 1 FROM pg_proc WHERE proname ~ '^memory_'") == []
        )
        assert nearest(store_on(adopted), 9) == ["note number 9 about subject-9"]

    def test_the_second_time_nothing_is_left_to_do(self, adopted, run):
        run("convert", "--execute", dsn=adopted)
        status, out, _ = run("convert", "--execute", "--json", dsn=adopted)
        assert (status, json.loads(out)["affected"]) == (0, 0)
        assert migrate.apply(adopted, kit.MODEL) == []

    def test_a_fresh_database_has_nothing_to_convert(self, dsn, run):
        status, out, _ = run("convert", "--execute", "--json", dsn=dsn)
        assert (status, json.loads(out)["affected"]) == (0, 0)


class TestBesideWriters:
    def test_nothing_they_write_is_lost_or_refused(self, adopted, run, eventually):
        with writing(adopted) as written:
            status, _, err = run("convert", "--execute", dsn=adopted)
            count = len(written)
            # Some more, after the columns changed places.
            eventually(lambda: written.trouble or len(written) > count + 5)
        assert status == 0, err
        assert kit.query(adopted, KIND) == NEW
        for table in ("memory_entries", "conversations"):
            found = kit.query(
                adopted,
                f"SELECT content, (embedding::vector)::text FROM {table}"
                " WHERE content LIKE 'live %' OR content LIKE 'changed %'",
            )
            vectors = dict(found)
            assert len(found) == len(written), table
            for name, (final, axis) in written:
                text = name if table == "conversations" else final
                assert json.loads(vectors[text]) == kit.vector(axis), text


@contextmanager
def writing(dsn):
    """Add, change and say things as an agent does, until the block ends."""
    written = Written()
    over, started = threading.Event(), threading.Event()

    def write():
        store, epoch, position = (
            Store(dsn, model=kit.MODEL.name, pool_size=1),
            str(uuid4()),
            0,
        )
        try:
            while not over.is_set():
                n = len(written)
                now = datetime.now(UTC)
                name, final, axis = f"live {n}", f"changed {n}", n % 700
                add = AddEntry(theme=WORK, target=Target.USER, content=name, at=now)
                turn = AddTurn(
                    theme=WORK,
                    session_id="live",
                    role=Role.USER,
                    content=name,
                    ordinal=1,
                    at=now,
                )
                change = ReplaceEntry(
                    theme=WORK,
                    target=Target.USER,
                    old_text="",
                    previous=name,
                    content=final,
                    at=now,
                )
                batch = [
                    Accepted(epoch=epoch, position=position + i, write=one)
                    for i, one in enumerate((add, turn, change), 1)
                ]
                position += 3
                vectors = {
                    0: kit.vector(axis + 1),
                    1: kit.vector(axis),
                    2: kit.vector(axis),
                }
                store.apply(batch, vectors, timeout_s=20)
                written.append((name, (final, axis)))
                started.set()
        except BaseException as exc:  # noqa: BLE001 - told to the test below
            written.trouble = exc
        finally:
            started.set()
            store.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert started.wait(30)
        yield written
    finally:
        over.set()
        thread.join()
    assert written.trouble is None


class Written(list):
    trouble = None


class TestKilled:
    @pytest.fixture
    def start(self, tmp_path):
        """Start `convert --execute` as a process of its own."""
        started = []

        def start(dsn):
            section = {"dsn": dsn, "embed_url": "http://127.0.0.1:9"}
            config = {"plugins": {"pgvector": section}}
            (tmp_path / "config.yaml").write_text(json.dumps(config))
            command = [sys.executable, "-m", "hermes_pgmemory", "convert", "--execute"]
            process = subprocess.Popen(
                [*command, "--home", str(tmp_path)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            started.append(process)
            return process

        yield start
        for process in started:
            process.kill()
            process.wait()

    def kill(self, process):
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL

    def finish(self, dsn, run, before, eventually):
        # The killed one's server processes may still hold what it held.
        eventually(lambda: run("convert", "--execute", dsn=dsn)[0] == 0)
        assert kit.query(dsn, KIND) == NEW
        assert kit.query(dsn, VECTORS) == before
        assert kit.query(dsn, BEGUN) == [0]

    def test_before_it_began(self, adopted, start, run, eventually):
        before = kit.query(adopted, VECTORS)
        with psycopg.connect(adopted) as reader:
            reader.execute("SELECT 1 FROM memory_entries")
            process = start(adopted)
            eventually(lambda: waiting_for_locks(adopted))
            self.kill(process)
        assert kit.query(adopted, KIND) == OLD
        self.finish(adopted, run, before, eventually)

    def test_with_some_rows_filled(self, adopted, start, run, store_on, eventually):
        before = kit.query(adopted, VECTORS)
        filled = "SELECT count(*) FROM memory_entries WHERE embedding_half IS NOT NULL"
        begin(adopted)
        with psycopg.connect(adopted) as writer:
            writer.execute("SELECT 1 FROM memory_entries WHERE id = 1 FOR UPDATE")
            process = start(adopted)
            # The themes before `work` are done; it waits for our row.
            eventually(lambda: kit.query(adopted, filled)[0] > 0)
            eventually(lambda: waiting_for_locks(adopted))
            self.kill(process)
        assert kit.query(adopted, KIND) == OLD
        assert 0 < kit.query(adopted, filled)[0] < 159
        assert kit.query(adopted, VECTORS) == before
        assert nearest(store_on(adopted), 8) == ["note number 8 about subject-8"]
        self.finish(adopted, run, before, eventually)

    def test_just_before_the_columns_change_places(
        self, adopted, start, run, store_on, eventually
    ):
        before = kit.query(adopted, VECTORS)
        begin(adopted)
        with psycopg.connect(adopted) as reader:
            reader.execute("SELECT 1 FROM memory_entries")
            process = start(adopted)
            eventually(
                lambda: (
                    kit.query(
                        adopted,
                        "SELECT count(*) FROM memory_entries"
                        " WHERE embedding_half IS NULL AND embedding IS NOT NULL",
                    )
                    == [0]
                )
            )
            eventually(lambda: waiting_for_locks(adopted))
            self.kill(process)
        assert kit.query(adopted, KIND) == OLD
        assert nearest(store_on(adopted), 8) == ["note number 8 about subject-8"]
        self.finish(adopted, run, before, eventually)

    def test_between_the_two_tables(self, adopted, start, run, eventually):
        before = kit.query(adopted, VECTORS)
        with psycopg.connect(adopted) as writer:
            writer.execute("SELECT 1 FROM conversations WHERE id = 1 FOR UPDATE")
            process = start(adopted)
            eventually(lambda: kit.query(adopted, KIND) == [OLD[0], NEW[1]])
            self.kill(process)
        self.finish(adopted, run, before, eventually)

    def test_an_index_left_half_built_is_built_anew(self, adopted, run, eventually):
        before = kit.query(adopted, VECTORS)
        begin(adopted)
        with (
            psycopg.connect(adopted, autocommit=True) as conn,
            pytest.raises(psycopg.errors.UniqueViolation),
        ):
            conn.execute(
                "CREATE UNIQUE INDEX CONCURRENTLY ix_memory_entries_unembedded_half"
                " ON memory_entries (target) WHERE embedding_half IS NULL"
            )
        self.finish(adopted, run, before, eventually)
        assert "UNIQUE" not in str(
            kit.query(
                adopted,
                "SELECT pg_get_indexdef('ix_memory_entries_unembedded'::regclass)",
            )
        )


def begin(dsn):
    """Do the first step, which needs the table for itself."""
    with convert.opened(dsn) as conversion:
        conversion.begin(Table.ENTRIES)


def waiting_for_locks(dsn):
    return kit.query(
        dsn,
        "SELECT pid FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()",
    )


class TestRefusals:
    def test_a_database_that_is_not_taken_over_yet(self, old, run):
        status, _, err = run("convert", dsn=old)
        assert status == 1
        assert "run `hermes-pgvector migrate`" in err

    def test_a_role_that_does_not_own_the_tables(self, adopted, run, new_role):
        role = new_role()
        with psycopg.connect(adopted, autocommit=True) as conn:
            conn.execute(
                f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}"
            )
            conn.execute(f"GRANT CREATE ON SCHEMA public TO {role}")
        dsn = make_conninfo(adopted, user=role)
        status, _, err = run("convert", "--execute", dsn=dsn)
        assert status == 1
        assert "--admin-dsn -` with the DSN of the tables' owner" in err
        assert f"not as {role}" in err
        status, _, _ = run("convert", "--execute", "--admin-dsn", adopted, dsn=dsn)
        assert status == 0
        with psycopg.connect(adopted, autocommit=True) as conn:
            conn.execute(f"REVOKE ALL ON SCHEMA public FROM {role}")

    def test_a_second_conversion_at_the_same_time(self, adopted, run):
        with psycopg.connect(adopted) as other:
            other.execute(
                "SELECT pg_advisory_xact_lock("
                "hashtextextended('hermes-pgmemory convert', 0))"
            )
            status, _, err = run("convert", "--execute", dsn=adopted)
        assert (status, "another conversion" in err) == (3, True)

    def test_a_database_that_is_away(self, run):
        assert run("convert", dsn="host=127.0.0.1 port=1")[0] == 3

    def test_a_vector_that_does_not_fit(self, adopted, run):
        kit.query(
            adopted,
            "UPDATE memory_entries"
            " SET embedding = array_fill(70000, ARRAY[768])::vector WHERE id = 1",
        )
        status, _, err = run("convert", "--execute", dsn=adopted)
        assert status == 1
        assert "1 vectors are too long for 16-bit floats" in err
        assert kit.query(adopted, KIND) == OLD

    def test_an_argument_it_does_not_have(self, adopted, run):
        assert run("convert", "--force", dsn=adopted)[0] == 2
