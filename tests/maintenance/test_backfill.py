from __future__ import annotations

import pytest
from maintenance_kit import POISON

from hermes_pgmemory.models import Theme

HOME = Theme("home")
BARE = """
SELECT content FROM memory_entries WHERE embedding IS NULL
 UNION ALL
SELECT content FROM conversations WHERE embedding IS NULL
"""


@pytest.fixture
def backfill(run, configure, dsn, endpoint):
    configure(
        dsn=dsn, embed_url=endpoint.url, embed_model="test", embed_write_backoff=0.01
    )
    return lambda *words: run("backfill", *words)


class TestEmbedding:
    def test_everything_that_waits_gets_a_vector_once(self, memory, backfill, endpoint):
        memory.apply(
            *(memory.entry(f"e{n}") for n in range(5)),
            *(memory.turn(f"t{n}") for n in range(7)),
        )
        ran = backfill("--batch", "3", "--json")
        assert ran.status == 0, ran.err
        assert ran.data["tables"] == {
            "entries": {"waiting": 5, "embedded": 5, "refused": 0},
            "turns": {"waiting": 7, "embedded": 7, "refused": 0},
        }
        assert memory.query(BARE) == []
        assert max(map(len, endpoint.asked)) == 3
        asked = len(endpoint.asked)
        assert backfill("--json").data["embedded"] == 0
        # Only the model's dimension is asked for.
        assert len(endpoint.asked) == asked + 1
        assert memory.log() == [
            ("backfill", "memory_entries", None, 5, 0),
            ("backfill", "conversations", None, 7, 0),
        ]

    def test_what_needs_no_vector_gets_none(self, memory, backfill):
        memory.apply(memory.entry("retired"), memory.turn("quiet", embed=False))
        memory.query("UPDATE memory_entries SET retired_at = now()")
        assert backfill("--json").data["embedded"] == 0
        assert sorted(memory.query(BARE)) == ["quiet", "retired"]

    def test_only_the_theme_that_is_named(self, memory, backfill):
        memory.apply(memory.entry("a"), memory.entry("b", theme=HOME))
        assert backfill("--theme", "home", "--json").data["embedded"] == 1
        assert memory.query(BARE) == ["a"]

    def test_a_poisoned_text_costs_only_itself(self, memory, backfill):
        texts = [*(f"t{n}" for n in range(20)), POISON, *(f"u{n}" for n in range(20))]
        memory.apply(*(memory.turn(text) for text in texts))
        for embedded in (40, 0):
            ran = backfill("--json", "--batch", "16")
            assert ran.status == 0
            assert (ran.data["embedded"], ran.data["refused"]) == (embedded, 1)
            assert "1 texts were refused" in ran.err
        assert memory.query(BARE) == [POISON]


class TestOutages:
    def test_what_was_done_stays_and_the_next_run_goes_on(
        self, memory, backfill, endpoint
    ):
        memory.apply(*(memory.turn(f"t{n}") for n in range(10)))
        endpoint.answers_left = 3  # one of them tells the dimension
        ran = backfill("--batch", "2", "--json")
        assert ran.status == 3
        assert ran.data["embedded"] == 4
        assert ran.data["finished"] is False
        assert "run it again" in ran.err
        endpoint.answers_left = None
        assert backfill("--json").data["embedded"] == 6
        assert memory.query(BARE) == []

    def test_an_embedder_that_does_not_answer_is_one_line(
        self, memory, backfill, endpoint
    ):
        memory.apply(memory.turn("t"))
        endpoint.answers_left = 0
        ran = backfill()
        assert ran.status == 3
        assert len(ran.err.splitlines()) == 1
        assert memory.log() == []


class TestGuards:
    def test_another_model_is_refused_in_one_line(
        self, memory, run, configure, dsn, endpoint
    ):
        memory.apply(memory.turn("t"))
        configure(dsn=dsn, embed_url=endpoint.url, embed_model="other")
        ran = run("backfill")
        assert ran.status == 1
        [line] = ran.err.splitlines()
        assert "test" in line
        assert "other" in line
        assert endpoint.asked == []

    def test_a_switch_to_another_model_ends_it(self, memory, backfill, endpoint):
        """Of the same length, so that nothing but the name tells them apart."""
        memory.apply(*(memory.turn(f"t{n}") for n in range(4)))

        def switch(asked: int) -> None:
            if asked == 2:  # the first asks for the length
                memory.query(
                    "WITH model AS (INSERT INTO memory_models (name, dimension)"
                    " VALUES ('other', 3) RETURNING id)"
                    " UPDATE memory_settings SET value = to_jsonb(model.id) FROM model"
                    " WHERE key = 'active_model_id'"
                )

        endpoint.when_asked = switch
        ran = backfill("--batch", "2")
        assert (ran.status, "come from other" in ran.err) == (1, True)
        assert len(memory.query(BARE)) == 4

    def test_another_dimension_is_refused_in_one_line(self, memory, backfill, endpoint):
        memory.apply(memory.turn("t"))
        endpoint.dimension = 5
        ran = backfill()
        assert ran.status == 1
        [line] = ran.err.splitlines()
        assert "5 dimensions" in line
        assert "holds 3" in line
        assert memory.query(BARE) == ["t"]

    @pytest.mark.parametrize("batch", ["0", "-1", "1025", "x"])
    def test_senseless_batches_are_refused(self, backfill, batch):
        assert backfill("--batch", batch).status == 2


class TestBesideWriters:
    def test_rows_that_change_meanwhile_are_left_alone(self, memory, backfill):
        memory.apply(*(memory.turn(f"t{n}") for n in range(1000)))
        with memory.busy() as written:
            ran = backfill("--json")
        assert ran.status == 0, ran.err
        assert len(memory.turns()) == 1000 + len(written)
        assert backfill().status == 0
        assert memory.query(BARE) == []
