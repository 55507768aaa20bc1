"""`reembed`, beside living agents, and killed at the worst moments."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import psycopg
import pytest
from maintenance_kit import START, Memory, vector_of

import looking
from hermes_pgmemory.errors import ModelMismatch
from hermes_pgmemory.maintenance import successors
from hermes_pgmemory.models import CONTEXT_CHARS, EmbeddingModel, Scope, Theme
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import Store, indexing
from hermes_pgmemory.store import reembed as moving

WIDE = 5
MODELS = {"test": 3, "wide": WIDE, "twin": 3}
SHAPE = """
SELECT relname::text, attname::text, format_type(atttypid, atttypmod), attstorage
  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
 WHERE relname IN ('memory_entries', 'conversations') AND relkind = 'r'
   AND attnum > 0 AND NOT attisdropped
 UNION ALL
SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid), 'c'
  FROM pg_constraint
 WHERE conrelid IN ('memory_entries'::regclass, 'conversations'::regclass)
 UNION ALL
SELECT indrelid::regclass::text, indexrelid::regclass::text,
       pg_get_indexdef(indexrelid), 'i'
  FROM pg_index
 WHERE indrelid IN ('memory_entries'::regclass, 'conversations'::regclass)
 UNION ALL
SELECT tgrelid::regclass::text, tgname::text, '', 't'
  FROM pg_trigger WHERE NOT tgisinternal
 UNION ALL
SELECT proname::text, '', '', 'f' FROM pg_proc WHERE proname ~ '^memory_'
 ORDER BY 1, 2, 4
"""
SEALED = """
SELECT relname::text
  FROM pg_index
  JOIN pg_class ON pg_class.oid = indexrelid
  JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
 WHERE starts_with(relname, 'pgmemory_sealed_') AND attname = '{}' AND indisvalid
 ORDER BY 1
"""
SETTINGS = "SELECT key, value FROM memory_settings ORDER BY key"
ACTIVE = """
SELECT name FROM memory_models
 WHERE id = (SELECT value::smallint FROM memory_settings WHERE key = 'active_model_id')
"""
TURNS = """
SELECT id, session_id, subject, ts, content, embedding::text, model_id
  FROM conversations ORDER BY session_id, subject, ts, id
"""


@pytest.fixture
def eventually():
    """Return a function that polls until a condition holds, or fails the test."""

    def eventually(condition, *, within_s=30):
        deadline, never = monotonic() + within_s, threading.Event()
        while not condition():
            assert monotonic() < deadline, f"not within {within_s} s"
            never.wait(0.02)

    return eventually


@pytest.fixture
def reembed(run, configure, dsn, endpoint):
    """Run `reembed` in a home that is configured for model `test`."""
    endpoint.models = dict(MODELS)
    configure(
        dsn=dsn, embed_url=endpoint.url, embed_model="test", embed_write_backoff=0.01
    )
    return lambda *words: run("reembed", *words)


def fill(memory: Memory, *, entries: int, turns: int) -> None:
    """Store rows with vectors of `test`; each session has twenty turns."""
    memory.apply(
        *(memory.entry(f"note {n}") for n in range(entries)),
        vectors={n: vector_of("test", f"note {n}", 3) for n in range(entries)},
    )
    said = [
        memory.turn(
            f"turn {n} of many",
            session_id=f"s{n // 20}",
            at=START + timedelta(seconds=n),
        )
        for n in range(turns)
    ]
    for start in range(0, turns, 1000):
        part = said[start : start + 1000]
        memory.apply(*part, vectors={n: [1, 0, 0] for n in range(len(part))})


def near(stored: str, wanted: list[float]) -> bool:
    given = json.loads(stored)
    return len(given) == len(wanted) and all(
        abs(a - b) < 0.002 for a, b in zip(given, wanted, strict=True)
    )


def check(memory: Memory, model: str) -> int:
    """Hold every row to what *model* makes of it in its context; return how many."""
    dimension = MODELS[model]
    assert memory.query(ACTIVE) == [model]
    [id_] = memory.query("SELECT id FROM memory_models WHERE name = %s", model)
    rows = memory.query("SELECT content, embedding::text, model_id FROM memory_entries")
    for content, stored, by in rows:
        assert by == id_, content
        assert near(stored, vector_of(model, content, dimension)), content
    before: tuple[Any, str] = (None, "")
    turns = memory.query(TURNS)
    for _, session, subject, _, content, stored, by in turns:
        context = before[1] if before[0] == (session, subject) else ""
        text = f"{context}\n{content}" if context else content
        assert by == id_, content
        assert near(stored, vector_of(model, text, dimension)), content
        before = (session, subject), content[-CONTEXT_CHARS:]
    return len(rows) + len(turns)


class TestEstimating:
    def test_it_counts_and_changes_nothing(self, memory, reembed):
        fill(memory, entries=7, turns=45)
        was = memory.query(SHAPE), memory.query(SETTINGS)
        ran = reembed("--to", "wide", "--json")
        assert (ran.status, ran.err) == (0, "")
        assert ran.data["executed"] is False
        assert ran.data["from"] == {"model": "test", "dimension": 3}
        assert ran.data["to"] == {"model": "wide", "dimension": WIDE}
        assert ran.data["waiting"] == {"entries": 7, "turns": 45}
        assert ran.data["texts_per_s"] > 0
        assert ran.data["estimate_s"] >= 0
        assert (memory.query(SHAPE), memory.query(SETTINGS)) == was

    def test_a_rate_bounds_the_estimate(self, memory, reembed):
        fill(memory, entries=1, turns=99)
        ran = reembed("--to", "wide", "--rate", "2", "--json")
        assert ran.data["estimate_s"] == 50

    def test_the_model_it_has_is_nothing_to_do(self, memory, reembed):
        fill(memory, entries=1, turns=1)
        ran = reembed("--json", "--execute")
        assert (ran.status, ran.data["embedded"]) == (0, 0)
        assert ran.data["switched"] is False


class TestMoving:
    @pytest.mark.parametrize("model", ["wide", "twin"])
    def test_every_row_gets_the_vector_of_its_text_in_context(
        self, memory, reembed, model
    ):
        fill(memory, entries=30, turns=50)
        memory.apply(
            memory.turn("hers", session_id="dm", subject="a" * 32, at=START),
            memory.turn("his", session_id="dm", subject="b" * 32, at=START),
            memory.turn("x" * 900, session_id="dm", subject="a" * 32, at=START),
            memory.turn("hers at last", session_id="dm", subject="a" * 32, at=START),
        )
        ran = reembed("--to", model, "--execute", "--json")
        assert ran.status == 0, ran.err
        assert ran.data["switched"] is True
        assert ran.data["embedded"] == 84
        assert f"plugins.pgvector.embed_model: {model}" in ran.err
        assert check(memory, model) == 84

    def test_what_needs_no_vector_gets_none(self, memory, reembed):
        memory.apply(memory.entry("retired"), memory.turn("quiet", embed=False))
        memory.query("UPDATE memory_entries SET retired_at = now()")
        assert reembed("--to", "wide", "--execute", "--json").data["embedded"] == 0
        assert memory.query("SELECT count(embedding) FROM conversations") == [0]

    def test_the_old_vectors_stay_until_they_are_dropped(self, memory, reembed):
        fill(memory, entries=3, turns=3)
        fresh = memory.query(SHAPE)
        reembed("--to", "wide", "--execute")
        kept = "SELECT count(embedding_old) FROM memory_entries"
        assert memory.query(kept) == [3]
        memory.query("UPDATE memory_entries SET content = 'new' WHERE content ~ '1'")
        assert memory.query(kept) == [2]
        ran = reembed("--to", "twin", "--execute")
        assert (ran.status, "--drop-old" in ran.err) == (1, True)
        assert "add --execute" in reembed("--drop-old").out
        assert memory.query(kept) == [2]
        assert reembed("--drop-old", "--execute").status == 0
        wide = [tuple(str(x).replace("(5)", "(3)") for x in r) for r in fresh]
        now = [
            tuple(str(x).replace("(5)", "(3)") for x in r) for r in memory.query(SHAPE)
        ]
        assert sorted(now) == sorted(wide)
        assert "no old vectors" in reembed("--drop-old", "--execute").out

    def test_sealed_indexes_move_along(self, memory, reembed, run):
        fill(memory, entries=40, turns=0)
        seal = ("index", "--min-rows", "20", "--workers", "0", "--json")
        assert run(*seal).status == 0
        assert len(memory.query(SEALED.format("embedding"))) == 2
        memory.apply(memory.entry("one more"), vectors={0: [1, 0, 0]})
        ran = reembed("--to", "wide", "--execute", "--json")
        assert ran.data["indexed"] == 2, ran.err
        moved = memory.query(SEALED.format("embedding"))
        assert len(moved) == 2
        assert memory.query(SEALED.format("embedding_old")) == []
        assert {step["act"] for step in run(*seal).data["steps"]} == {"keep"}
        assert memory.query(SEALED.format("embedding")) == moved

    def test_sealed_indexes_of_an_interrupted_run_are_taken_over(
        self, memory, dsn, reembed, run
    ):
        fill(memory, entries=40, turns=0)
        run("index", "--min-rows", "20", "--workers", "0")
        with moving.opened(dsn) as move:
            model = EmbeddingModel(name="wide", dimension=WIDE)
            move.begin(model)
        for column, valid in ("embedding_next", True), ("embedding_next", False):
            with indexing.opened(dsn) as indexes:
                assert len(successors.build(indexes)) == (2 if valid else 1)
            [one, _] = memory.query(SEALED.format(column))
            memory.query(
                "UPDATE pg_index SET indisvalid = false"
                f" WHERE indexrelid = '{one}'::regclass"
            )
        assert reembed("--to", "wide", "--execute", "--json").data["indexed"] == 1
        assert len(memory.query(SEALED.format("embedding"))) == 2

    def test_there_and_back_again(self, memory, reembed):
        fill(memory, entries=5, turns=25)
        for model in ("wide", "test", "twin"):
            ran = reembed("--to", model, "--execute", "--drop-old", "--json")
            assert ran.status == 0, ran.err
            assert check(memory, model) == 30

    def test_an_abort_leaves_everything_as_it_was(self, memory, reembed, endpoint):
        fill(memory, entries=30, turns=50)
        was = memory.query(SHAPE), memory.query(SETTINGS), memory.query(TURNS)
        models = memory.query("SELECT name FROM memory_models")
        endpoint.answers_left = 3
        assert reembed("--to", "wide", "--execute", "--batch", "16").status == 3
        endpoint.answers_left = None
        assert reembed("--to", "twin", "--execute").status == 1
        assert reembed("--abort", "--json").data == {"aborted": True}
        assert memory.query(SHAPE) == was[0]
        assert (memory.query(SETTINGS), memory.query(TURNS)) == was[1:]
        assert memory.query("SELECT name FROM memory_models") == models
        assert reembed("--abort", "--json").data == {"aborted": False}

    def test_an_outage_is_told_and_the_next_run_goes_on(
        self, memory, reembed, endpoint
    ):
        fill(memory, entries=30, turns=50)
        endpoint.answers_left = 4
        ran = reembed("--to", "wide", "--execute", "--batch", "16", "--json")
        assert (ran.status, ran.data["finished"]) == (3, False)
        assert "run it again" in ran.err
        assert memory.query(ACTIVE) == ["test"]
        endpoint.answers_left = None
        ran = reembed("--to", "wide", "--execute", "--json")
        assert (ran.status, ran.data["resumed"]) == (0, True)
        assert ran.data["embedded"] < 80
        assert check(memory, "wide") == 80

    def test_a_model_that_refuses_everything_is_not_switched_to(self, memory, reembed):
        texts = [f"poison {n}" for n in range(5)]
        memory.apply(*map(memory.entry, texts))
        ran = reembed("--to", "wide", "--execute")
        assert ran.status == 1
        assert "nothing was switched" in ran.err
        assert memory.query(ACTIVE) == ["test"]

    @pytest.mark.parametrize(
        "words",
        [
            ("--batch", "0"),
            ("--rate", "0"),
            ("--rate", "nan"),
            ("--abort", "--execute"),
            ("--to", "wide", "--dimension", "7"),
        ],
    )
    def test_senseless_arguments_are_refused(self, reembed, words):
        assert reembed(*words).status == 2

    def test_an_unfinished_conversion_comes_first(self, memory, reembed):
        memory.query("ALTER TABLE memory_entries ADD embedding_half halfvec(3)")
        ran = reembed("--to", "wide")
        assert (ran.status, "convert" in ran.err) == (1, True)


class TestTheStoreOfAnotherModel:
    @pytest.fixture
    def other(self, dsn) -> Iterator[Memory]:
        store = Store(dsn, model="twin")
        yield Memory(store, dsn)
        store.close()

    def test_its_vectors_are_never_written(self, other, memory):
        with pytest.raises(ModelMismatch):
            other.apply(other.entry("e"), vectors={0: [1, 0, 0]})
        assert other.contents() == []
        other.apply(other.entry("e"))
        [row] = other.store.unembedded("entries", limit=1, timeout_s=5)
        with pytest.raises(ModelMismatch):
            other.store.set_vectors("entries", [(row, [1, 0, 0])], timeout_s=5)
        assert memory.store.set_vectors("entries", [(row, [1, 0, 0])], timeout_s=5) == 1

    def test_its_questions_are_compared_with_nothing(self, other, memory):
        memory.apply(memory.entry("harbour"), vectors={0: [1, 0, 0]})

        def ask(store, text):
            work = Scope(theme=Theme("work"), subject=None)
            question = Question(text=text, vector=[1, 0, 0], scope=work, limit=1)
            return store.search_entries(question, timeout_s=5)

        assert len(ask(memory.store, "")) == 1
        assert ask(other.store, "") == []
        [hit] = ask(other.store, "harbour")
        assert hit.similarity is None


@contextmanager
def agents(dsn: str) -> Iterator[list[str]]:
    """Write and replace with vectors of `test`, as its agents do, and recall.

    A refusal for the model is met as the writer meets it: the text goes without.
    """
    written: list[str] = []
    trouble: list[BaseException] = []
    over, started = threading.Event(), threading.Event()

    def work() -> None:
        deadline = monotonic() + 120
        store = Store(dsn, model="test", pool_size=1)
        agent = Memory(store, dsn)
        try:
            while not over.wait(0.02) and monotonic() < deadline:
                name = f"live {len(written)}"
                now = datetime.now(UTC)
                batch = agent.accept(
                    agent.entry(name, at=now),
                    agent.turn(name, session_id="live", at=now),
                )
                vector = vector_of("test", name, 3)
                try:
                    store.apply(batch, {0: vector, 1: vector}, timeout_s=20)
                except ModelMismatch:
                    store.apply(batch, {}, timeout_s=20)
                work = Scope(theme=Theme("work"), subject=None)
                question = Question(text="note", vector=vector, scope=work, limit=3)
                store.search_entries(question, timeout_s=20)
                written.append(name)
                started.set()
        except BaseException as exc:  # noqa: BLE001 - told to the test below
            trouble.append(exc)
        finally:
            started.set()
            store.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert started.wait(30)
        yield written
    finally:
        over.set()
        thread.join()
    assert trouble == []


class TestBesideAgentsAndKilled:
    @pytest.fixture
    def start(self, tmp_path, reembed):
        """Start `reembed --execute` as a process of its own."""
        del reembed  # it has written the configuration
        started = []

        def start(*words: str):
            command = [sys.executable, "-m", "hermes_pgmemory", "reembed", "--execute"]
            process = subprocess.Popen(
                [*command, *words, "--home", str(tmp_path)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            started.append(process)
            return process

        yield start
        for process in started:
            process.kill()
            process.wait()

    def test_thousands_of_rows_killed_twice(
        self, memory, reembed, start, dsn, eventually
    ):
        fill(memory, entries=600, turns=5_400)
        words = ("--to", "wide", "--batch", "60")
        with agents(dsn) as written:
            for enough in (1_200, 3_600):
                process = start(*words)
                eventually(lambda n=enough: filled(dsn) >= n, within_s=90)
                assert process.poll() is None
                process.send_signal(signal.SIGKILL)
                assert process.wait() == -signal.SIGKILL
                assert memory.query(ACTIVE) == ["test"]
            # The killed one's server processes may still hold what it held.
            ran = None

            def finished() -> bool:
                nonlocal ran
                ran = reembed(*words, "--execute", "--json")
                return ran.status == 0

            eventually(finished, within_s=120)
            assert ran.data["resumed"] is True
            assert ran.data["embedded"] < 2_460 + 2 * len(written)
            count = len(written)
            eventually(lambda: len(written) > count + 3)
        # What was written after the last batch is what every agent's healer finds.
        assert reembed("--to", "wide", "--execute").status == 0
        assert check(memory, "wide") == 6_000 + 2 * len(written)
        live = memory.query(
            "SELECT content FROM memory_entries WHERE content ~ '^live'"
        )
        assert sorted(live) == sorted(written)

    def test_killed_while_it_waits_to_switch(
        self, memory, reembed, start, dsn, endpoint, eventually
    ):
        fill(memory, entries=20, turns=40)
        endpoint.answers_left = 2
        assert reembed("--to", "twin", "--execute").status == 3
        endpoint.answers_left = None
        with psycopg.connect(dsn) as reader:
            reader.execute("SELECT 1 FROM memory_entries")
            process = start("--to", "twin")
            eventually(lambda: filled(dsn) == 60)
            # To count rows is to queue behind it; this is not.
            eventually(lambda: waiting(dsn))
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        assert memory.query(ACTIVE) == ["test"]
        eventually(lambda: reembed("--to", "twin", "--execute").status == 0)
        assert check(memory, "twin") == 60

    def test_killed_after_it_switched(self, memory, reembed):
        fill(memory, entries=5, turns=5)
        assert reembed("--to", "wide", "--execute").status == 0
        # As if written between the last batch and the switch.
        memory.apply(memory.entry("late"), memory.turn("late", session_id="late"))
        ran = reembed("--to", "wide", "--execute", "--json")
        assert (ran.data["embedded"], ran.data["switched"]) == (2, False)
        assert check(memory, "wide") == 12


def filled(dsn: str) -> int:
    """Return how many rows have their next vector."""
    try:
        [rows] = looking.column(
            dsn,
            "SELECT (SELECT count(*) FROM memory_entries"
            "         WHERE embedding_next IS NOT NULL)"
            "     + (SELECT count(*) FROM conversations"
            "         WHERE embedding_next IS NOT NULL)",
        )
    except psycopg.errors.UndefinedColumn:
        return 0
    return rows


def waiting(dsn: str) -> bool:
    [found] = looking.column(
        dsn,
        "SELECT EXISTS (SELECT FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database())",
    )
    return found
