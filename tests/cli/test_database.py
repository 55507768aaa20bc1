"""Commands that act on the database: migrate and replay."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_kit import Run

from hermes_pgmemory.codec import encode
from hermes_pgmemory.journal import Journal
from hermes_pgmemory.models import AddEntry, Target, Theme
from hermes_pgmemory.store import Store

Configure = Callable[..., None]
NewDatabase = Callable[..., str]
DOWN = "host=127.0.0.1 port=1 user=u password=hunter2"


class TestMigrate:
    def test_check_tells_what_is_missing_and_changes_nothing(
        self, run: Run, configure: Configure, new_database: NewDatabase
    ):
        configure(dsn=new_database())
        for _ in range(2):
            ran = run("migrate", "--check")
            assert ran.status == 1
            assert "0001_settings" in ran.err

    def test_a_named_model_needs_no_model_to_answer(
        self, run: Run, configure: Configure, new_database: NewDatabase
    ):
        dsn = new_database()
        configure(dsn=dsn, embed_url="http://127.0.0.1:1/v1")
        ran = run("migrate", "--model", "nomic-embed-text", "--dimensions", "768")
        assert ran.status == 0, ran.err
        assert "applied 0001_settings" in ran.out
        with closing(Store(dsn)) as store:
            model = store.verify(timeout_s=5).model
        assert model is not None
        assert (model.name, model.dimension) == ("nomic-embed-text", 768)
        assert model.query_prefix == "search_query: "

    @pytest.mark.parametrize(("dimensions", "said"), [(3072, False), (4096, True)])
    def test_it_says_where_vectors_are_too_long_for_an_index(
        self,
        run: Run,
        configure: Configure,
        new_database: NewDatabase,
        dimensions: int,
        said: bool,
    ):
        configure(dsn=new_database())
        ran = run("migrate", "--model", "long", "--dimensions", str(dimensions))
        assert ran.status == 0, ran.err
        assert ("4096 numbers cannot be indexed" in ran.out) == said

    def test_otherwise_the_configured_model_is_asked(
        self, run: Run, configure: Configure, new_database: NewDatabase
    ):
        dsn = new_database()
        configure(dsn=dsn)
        assert run("migrate").status == 0
        with closing(Store(dsn)) as store:
            model = store.verify(timeout_s=5).model
        assert model is not None
        assert model.dimension == 384

    def test_a_second_time_there_is_nothing_to_do(
        self, run: Run, configure: Configure, dsn: str
    ):
        configure(dsn=dsn)
        ran = run("migrate", "--model", "test", "--dimensions", "3", "--json")
        assert ran.data == {"applied": [], "current": True}
        assert run("migrate", "--check").out == "up to date\n"

    def test_check_starts_no_embedded_server(self, run: Run, home: Path):
        ran = run("migrate", "--check")
        assert ran.status == 3
        assert "hermes-pgvector server start" in ran.err
        assert list(home.iterdir()) == []

    def test_half_a_model_is_wrong_usage(self, run: Run, configure: Configure):
        configure(dsn=DOWN)
        ran = run("migrate", "--model", "x")
        assert ran.status == 2
        assert "--dimensions" in ran.err

    def test_a_database_that_does_not_answer_is_one_line_without_secrets(
        self, run: Run, configure: Configure
    ):
        configure(dsn=DOWN)
        ran = run("migrate", "--check")
        assert ran.status == 3
        assert len(ran.err.splitlines()) == 1
        assert "hunter2" not in ran.err

    def test_bad_settings_are_all_named(self, run: Run, configure: Configure):
        configure(dsn=DOWN, prefetch_limits=1, turn_min_chars="x")
        ran = run("migrate", "--check")
        assert ran.status == 1
        assert "prefetch_limits" in ran.err
        assert "turn_min_chars" in ran.err


class TestReplay:
    def journaled(self, home: Path, *contents: str) -> None:
        """Leave a journal as a process does that died."""
        journal = Journal.claim(home / "pgvector" / "journal", quota_bytes=1 << 20)
        at = datetime(2026, 1, 1, tzinfo=UTC)
        journal.append(
            [
                encode(
                    AddEntry(
                        theme=Theme("sales"),
                        target=Target.MEMORY,
                        content=content,
                        at=at,
                    )
                )
                for content in contents
            ]
        )
        journal.close()

    def test_it_stores_what_a_dead_process_left(
        self,
        run: Run,
        home: Path,
        configure: Configure,
        dsn_of: Callable[[int], str],
    ):
        dsn = dsn_of(384)
        configure(dsn=dsn)
        self.journaled(home, "one", "two")
        ran = run("replay", "--json")
        assert ran.status == 0, ran.err
        told = ran.data
        assert (told["stored"], told["pending"], told["dead_letters"]) == (2, 0, 0)
        with closing(Store(dsn)) as store:
            [count] = store.counts(timeout_s=5)
        assert (count.theme, count.entries) == ("sales", 2)
        assert run("replay").out.startswith("stored 0 writes, 0 wait")

    def test_a_database_that_is_away_costs_nothing(
        self, run: Run, home: Path, configure: Configure
    ):
        configure(dsn=DOWN)
        self.journaled(home, "one")
        ran = run("replay", "--json")
        assert ran.status == 3
        assert ran.data["pending"] == 1
        assert "127.0.0.1 port 1" in ran.err
        assert "hunter2" not in ran.err

    def test_an_outage_is_one_line(self, child: Run, home: Path, configure: Configure):
        configure(dsn=DOWN)
        self.journaled(home, "one")
        ran = child("hermes-pgvector", "replay")
        assert ran.status == 3
        assert len(ran.err.splitlines()) == 1

    def test_without_a_journal_there_is_nothing_to_do(self, run: Run, home: Path):
        assert run("replay").status == 0
        assert list(home.iterdir()) == []
