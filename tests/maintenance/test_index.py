from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from time import monotonic

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermes_pgmemory.models import EmbeddingModel, Scope, Theme
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import Store, migrate, sealed
from hermes_pgmemory.store.roles import grant
from hermes_pgmemory.store.sealed import mark_of

ROWS = 400


@pytest.fixture
def fill(memory):
    """Add entries with random vectors of the database's length to a theme."""

    def fill(rows=ROWS, *, theme="work", dimension=3):
        memory.query(
            "INSERT INTO memory_entries (agent_identity, target, content,"
            " content_hash, embedding, model_id, tsv)"
            f" SELECT '{theme}', 'memory', n::text, sha256(random()::text::bytea),"
            " (SELECT array_agg(random() + 0 * (i + n)) FROM generate_series(1,"
            f" {dimension}) AS i)::vector({dimension}), 1, 'x:1'"
            f" FROM generate_series(1, {rows}) AS n"
        )

    return fill


@pytest.fixture
def indexes(memory):
    """Our indexes: marks and watermarks, valid ones only."""

    def indexes():
        names = memory.query(
            "SELECT relname::text FROM pg_index"
            " JOIN pg_class ON pg_class.oid = indexrelid"
            " WHERE indisvalid AND starts_with(relname, 'pgmemory_sealed_')"
        )
        return dict(sealed.parse_name(name) for name in names)

    return indexes


def test_status_tells_how_far_they_reach(fill, index, run, memory):
    fill()
    assert "indexes" not in run("status", "--json").data["parts"]
    index()
    [last] = memory.query("SELECT max(id) FROM memory_entries")
    fill(7)
    fill(3, theme="play")
    part = run("status", "--json").data["parts"]["indexes"]
    assert part["state"] == "ok"
    told = [(one["theme"], one["watermark"], one["tail"]) for one in part["sealed"]]
    assert set(told) == {(None, last, 10), ("work", last, 7)}
    assert "2 sealed" in part["detail"]
    assert "are 10 vectors" in part["detail"]


@pytest.fixture
def index(run):
    """Run `hermes-pgvector index`, for themes of 300 rows and more."""

    def index(*words, min_rows=300):
        return run("index", "--min-rows", f"{min_rows}", "--workers", "0", *words)

    return index


def acts(ran):
    return [(step["theme"], step["act"], step["done"]) for step in ran.data["steps"]]


class TestBuilding:
    def test_large_themes_and_the_fleet_get_one_each(self, fill, index, indexes):
        fill()
        fill(ROWS, theme="home")
        fill(50, theme="small")
        ran = index("--json")
        assert ran.status == 0
        assert acts(ran) == [
            (None, "build", True),
            ("home", "build", True),
            ("work", "build", True),
        ]
        assert indexes() == {
            "all": 2 * ROWS + 50,
            mark_of("work"): ROWS,
            mark_of("home"): 2 * ROWS,
        }

    def test_again_there_is_nothing_to_do(self, fill, index, indexes):
        fill()
        index()
        before = indexes()
        ran = index("--json")
        assert {act for _, act, _ in acts(ran)} == {"keep"}
        assert indexes() == before

    def test_few_rows_need_none(self, fill, index, indexes):
        fill(20)
        ran = index()
        assert (ran.status, indexes()) == (0, {})
        assert "0 of 0 steps done" in ran.out

    def test_a_plan_changes_nothing(self, fill, index, indexes):
        fill()
        ran = index("--plan")
        assert "2 steps to take" in ran.out
        assert indexes() == {}

    def test_turns_have_theirs(self, memory, fill, index, indexes):
        fill(1)
        memory.query(
            "INSERT INTO conversations (agent_identity, session_id, role, content,"
            " turn_key, embedding, model_id, tsv) SELECT 'work', 's', 'user', 'x',"
            " int4send(n), ARRAY[n, 1, 1]::vector(3), 1, 'x:1'"
            f" FROM generate_series(1, {ROWS}) AS n"
        )
        ran = index("--json")
        assert {step["table"] for step in ran.data["steps"]} == {"conversations"}
        assert indexes() == {"all": ROWS, mark_of("work"): ROWS}

    def test_names_of_themes_are_quoted(self, fill, index, indexes):
        fill(theme="o''brien \\ %s")
        assert index("--json").status == 0
        assert mark_of("o'brien \\ %s") in indexes()

    def test_it_tells_what_a_build_may_use_and_logs_it(self, fill, index, memory):
        fill()
        (step, _) = index("--json").data["steps"]
        assert step["memory_mb"] >= 64
        assert step["workers"] == 0
        assert memory.log()[0][:4] == ("index", "memory_entries", None, ROWS)

    def test_the_session_keeps_nothing_of_it(self, dsn, fill):
        from hermes_pgmemory.maintenance import index  # noqa: PLC0415

        fill()
        with index.opened(dsn) as indexing:
            show = "SHOW maintenance_work_mem"
            before = indexing._conn.execute(show).fetchall()
            found = index.survey(indexing, min_rows=300, auto=False)
            index.carry_out(
                indexing,
                found,
                drop=True,
                memory_mb=300,
                workers=0,
                advance=lambda _: None,
            )
            assert indexing._conn.execute(show).fetchall() == before


class TestMoving:
    def test_a_tail_moves_the_watermark_and_the_old_index_goes(
        self, fill, index, indexes
    ):
        fill()
        index()
        fill(30)
        ran = index("--json")
        assert [act for _, act, _ in acts(ran)] == ["move", "move"]
        assert indexes() == {"all": ROWS + 30, mark_of("work"): ROWS + 30}

    def test_auto_leaves_a_short_tail_alone(self, fill, index, indexes):
        fill()
        index()
        fill(1_999)
        assert {act for _, act, _ in acts(index("--auto", "--json"))} == {"keep"}
        fill(1)
        assert {act for _, act, _ in acts(index("--auto", "--json"))} == {"move"}
        assert indexes() == {"all": ROWS + 2_000, mark_of("work"): ROWS + 2_000}

    def test_agents_write_and_search_meanwhile(self, fill, index, memory):
        fill(3_000)
        with memory.busy() as written:
            ran = index("--json")
        assert ran.status == 0
        assert len(memory.contents()) == 3_000 + len(written)


class TestDropping:
    def test_a_theme_that_shrank_is_named_and_dropped_on_demand(
        self, memory, fill, index, indexes
    ):
        fill()
        fill(theme="home")
        index()
        memory.query("DELETE FROM memory_entries WHERE agent_identity = 'home'")
        ran = index()
        assert "add --drop-small" in ran.out
        assert mark_of("home") in indexes()
        assert index("--drop-small").status == 0
        assert set(indexes()) == {"all", mark_of("work")}

    def test_auto_drops_it_and_is_silent_about_what_there_is_not(
        self, memory, fill, index, indexes
    ):
        fill()
        index()
        memory.query("DELETE FROM memory_entries WHERE id > 100")
        assert index("--auto").status == 0
        assert indexes() == {}

    def test_a_theme_on_the_edge_keeps_it(self, memory, fill, index, indexes):
        fill()
        index()
        memory.query("DELETE FROM memory_entries WHERE id > 200")
        index("--auto")
        assert set(indexes()) == {"all", mark_of("work")}

    def test_nobody_elses_index_is_touched(self, memory, fill, index):
        fill()
        for name in ("mine", "pgmemory_sealed_mine"):
            memory.query(f"CREATE INDEX {name} ON memory_entries (updated_at)")
        index("--drop-small")
        memory.query("DELETE FROM memory_entries")
        index("--drop-small")
        kept = memory.query(
            "SELECT to_regclass(n) IS NOT NULL FROM (VALUES"
            " ('mine'), ('pgmemory_sealed_mine')) AS v (n)"
        )
        assert kept == [True, True]


class TestInterruption:
    def invalid(self, memory):
        return memory.query(
            "SELECT relname::text FROM pg_index"
            " JOIN pg_class ON pg_class.oid = indexrelid WHERE NOT indisvalid"
        )

    def test_what_a_cancelled_build_left_is_cleared_and_built_anew(
        self, memory, dsn, fill, index, indexes
    ):
        fill()
        name = sealed.index_name("entries", "work", ROWS)
        with psycopg.connect(dsn, autocommit=True) as holder, holder.transaction():
            # An open transaction that has written makes the build wait.
            holder.execute("UPDATE memory_entries SET updated_at = now() WHERE id = 1")
            build = (
                f"CREATE INDEX CONCURRENTLY {name} ON memory_entries USING hnsw"
                " (embedding halfvec_cosine_ops) WHERE agent_identity = 'work'"
                f" AND id <= {ROWS}"
            )
            with psycopg.connect(dsn, autocommit=True) as conn:
                conn.execute("SET statement_timeout = '200ms'")
                with pytest.raises(psycopg.errors.QueryCanceled):
                    conn.execute(build)
        assert self.invalid(memory) == [name]
        ran = index("--json")
        assert (None, "clear", True) in acts(ran)
        assert self.invalid(memory) == []
        assert indexes() == {"all": ROWS, mark_of("work"): ROWS}

    def test_a_killed_run_is_taken_up_by_the_next(
        self, memory, dsn, fill, index, indexes, tmp_path
    ):
        fill()
        command = [sys.executable, "-m", "hermes_pgmemory", "index", "--min-rows"]
        with psycopg.connect(dsn, autocommit=True) as holder, holder.transaction():
            holder.execute("UPDATE memory_entries SET updated_at = now() WHERE id = 1")
            child = subprocess.Popen([*command, "300", "--home", str(tmp_path)])
            deadline = monotonic() + 60
            while not self.invalid(memory):
                assert monotonic() < deadline
            child.send_signal(signal.SIGKILL)
            child.wait()
        ran = index("--json")
        while ran.status == 3:  # the server still notices that its client has died
            assert monotonic() < deadline
            ran = index("--json")
        assert ran.status == 0
        assert self.invalid(memory) == []
        assert indexes() == {"all": ROWS, mark_of("work"): ROWS}

    def test_one_that_was_replaced_but_not_dropped_goes(
        self, memory, fill, index, indexes
    ):
        fill()
        index()
        old = sealed.index_name("entries", "work", 100)
        memory.query(
            f"CREATE INDEX {old} ON memory_entries USING hnsw (embedding"
            " halfvec_cosine_ops) WHERE agent_identity = 'work' AND id <= 100"
        )
        assert (None, "clear", True) in acts(index("--json"))
        assert indexes() == {"all": ROWS, mark_of("work"): ROWS}

    def test_two_runs_at_once_are_one_too_many(self, dsn, index):
        from hermes_pgmemory.maintenance import index as module  # noqa: PLC0415

        with module.opened(dsn):
            ran = index()
        assert ran.status == 3
        assert "another" in ran.err


class TestLimits:
    @pytest.fixture
    def wide(self, new_database, configure):
        """Make a database with vectors of a length and a type; return its DSN."""

        def wide(dimension, kind="halfvec"):
            dsn = new_database()
            migrate.apply(dsn, EmbeddingModel(name="test", dimension=dimension))
            with psycopg.connect(dsn, autocommit=True) as conn:
                for table in ("memory_entries", "conversations"):
                    conn.execute(
                        f"ALTER TABLE {table} ALTER embedding TYPE {kind}({dimension})"
                    )
                conn.execute(
                    "INSERT INTO memory_entries (agent_identity, target, content,"
                    " content_hash, embedding, model_id, tsv) SELECT 'work', 'memory',"
                    " n::text, int4send(n), (SELECT array_agg(random() + 0 * (i + n))"
                    f" FROM generate_series(1, {dimension}) AS i)::vector, 1, 'x:1'"
                    " FROM generate_series(1, 40) AS n"
                )
            configure(dsn=dsn)
            return dsn

        return wide

    def ask(self, dsn, dimension):
        with closing(Store(dsn)) as store:
            work = Scope(theme=Theme("work"), subject=None)
            vector = [0.5] * dimension
            question = Question(text="", vector=vector, scope=work, limit=10)
            hits = store.search_entries(question, timeout_s=30)
        return len(hits)

    @pytest.mark.parametrize(
        ("dimension", "kind", "fits"),
        [
            (3_072, "halfvec", True),
            (4_000, "halfvec", True),
            (4_096, "halfvec", False),
            (2_000, "vector", True),
            (3_072, "vector", False),
        ],
    )
    def test_vectors_too_long_are_searched_all_the_same(
        self, wide, index, dimension, kind, fits
    ):
        dsn = wide(dimension, kind)
        assert self.ask(dsn, dimension) == 10
        ran = index("--json", min_rows=20)
        assert ran.status == 0
        assert bool(ran.data["steps"]) == fits
        assert bool(ran.data["unfit"]) != fits
        assert self.ask(dsn, dimension) == 10

    def test_and_the_command_says_so(self, wide, index):
        wide(4_096)
        said = index().out
        assert "no index can hold vectors of 4,096 dimensions" in said
        assert "searches stay exact" in said
        wide(3_072, "vector")
        assert "hermes-pgvector convert --execute" in index().out


class TestWhoMay:
    def test_the_runtime_role_may_not_and_is_told_what_to_do(
        self, dsn, fill, index, configure, new_role
    ):
        fill()
        role = new_role()
        grant(dsn, role)
        configure(dsn=make_conninfo(dsn, user=role))
        ran = index()
        assert ran.status == 1
        assert "--admin-dsn" in ran.err
        assert role in ran.err

    def test_the_owner_builds_and_the_runtime_role_searches(
        self, dsn, fill, index, indexes, configure, new_role
    ):
        fill(3_000)
        role = new_role()
        grant(dsn, role)
        agent = make_conninfo(dsn, user=role)
        configure(dsn=agent)
        assert index("--admin-dsn", dsn).status == 0
        assert set(indexes()) == {"all", mark_of("work")}
        with closing(Store(agent)) as store:
            work = Scope(theme=Theme("work"), subject=None)
            question = Question(text="x", vector=[1, 0, 0], scope=work, limit=5)
            hits = store.search_entries(question, timeout_s=30)
        assert len(hits) == 5

    @pytest.mark.parametrize(
        "words", [["--min-rows", "0"], ["--workers", "-1"], ["--memory-mb", "0"]]
    )
    def test_numbers_out_of_range_are_wrong_usage(self, fill, run, words):
        fill(1)
        assert run("index", *words).status == 2

    def test_a_database_that_does_not_answer_is_3(self, run, configure):
        configure(dsn="host=/nowhere dbname=x")
        assert run("index").status == 3
