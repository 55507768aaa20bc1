"""Searches by sealed indexes: quicker, never another answer and never a short one."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache, partial

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import looking
from hermes_pgmemory.maintenance import index
from hermes_pgmemory.models import Facets, Scope, Subject, Target, Theme
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import Store, sealed
from hermes_pgmemory.store.sealed import mark_of
from hermes_pgmemory.store.upkeep import Table

ROWS = 3_000
"""Enough for PostgreSQL to prefer an index, which takes it a third of a second."""
HOME_ROWS = 2_500
ADOPTED_ROWS = 4_000
FEW = {Table.ENTRIES: 90, Table.TURNS: 500}
"""Rows of a theme of few, among `ROWS + HOME_ROWS` of others."""
ALICE = Subject("a" * 32)
BOB = Subject("b" * 32)
SHARES = {ALICE: 3, BOB: 55}
"""Each has one row in so many."""
OLD = datetime(2020, 1, 1, tzinfo=UTC)
WORK = Scope(theme=Theme("work"), subject=None)
EVERYONE = Scope(theme=None, subject=None)
QUESTION = [0.5, -1.0, 0.25]


@pytest.fixture(params=[Table.ENTRIES, Table.TURNS])
def table(request):
    return request.param


WIDE = "jsonb_build_object('padding', repeat('x', 700))"
"""Makes a row as wide as one with a real model's vector: reading many costs as much."""


def fill(memory, table, rows=ROWS, **more):
    """Add rows with random vectors, all of them saying `tea`, some more."""
    memory.query(filling(table, rows, **more))


def filling(table, rows=ROWS, *, theme="work", first=1, seed=3):
    target = {
        Table.ENTRIES: "memory_entries (agent_identity, target, content, content_hash,"
        " metadata, embedding, model_id, tsv)",
        Table.TURNS: "conversations (agent_identity, session_id, role, content,"
        " turn_key, metadata, embedding, model_id, tsv)",
    }[table]
    middle = {
        Table.ENTRIES: "'memory', n::text, sha256(n::text::bytea),",
        Table.TURNS: "'s' || n, 'user', n::text, int4send(n),",
    }[table]
    return (
        f"SELECT setseed(0.{seed});"
        f" INSERT INTO {target}"
        f" SELECT '{theme}', {middle} {WIDE}, ARRAY[random() - 0.5, random() - 0.5,"
        " random() - 0.5]::vector(3), 1, to_tsvector('english', 'tea ' || n)"
        f" FROM generate_series({first}, {first + rows - 1}) AS n;"
        " ANALYZE memory_entries, conversations"
    )


def seal(dsn, *, min_rows=1_000, **more):
    with index.opened(dsn) as run:
        found = index.survey(run, min_rows=min_rows, auto=False)
        given = {"drop": True, "memory_mb": 64, "workers": 0, "advance": lambda _: None}
        return index.carry_out(run, found, **(given | more))


def search(store, table):
    return store.search_entries if table is Table.ENTRIES else store.search_turns


@pytest.fixture
def ask_on(table):
    """Ask a database as a process that has just started; returns ids."""

    def ask(dsn, scope=WORK, *, text="", vector=QUESTION, limit=10, **more):
        question = Question(text=text, vector=vector, scope=scope, limit=limit, **more)
        with closing(Store(dsn)) as store:
            hits = search(store, table)(question, timeout_s=30)
        return [hit.id for hit in hits]

    return ask


@pytest.fixture
def ask(dsn, ask_on):
    """The same of the test's database."""
    return partial(ask_on, dsn)


@pytest.fixture
def nearest(memory, table):
    """The ids that plain SQL finds, by no index."""

    def nearest(limit=10, where="agent_identity = 'work'"):
        name = {Table.ENTRIES: "memory_entries", Table.TURNS: "conversations"}[table]
        return memory.query(
            f"SELECT id FROM {name} WHERE {where}"
            f" ORDER BY (embedding <=> '{QUESTION}') + 0, id LIMIT {limit}"
        )

    return nearest


@pytest.fixture(scope="module")
def made_by(new_template, template):
    """Make a database by a statement, once; with indexes over its rows, if told."""

    @cache
    def made_by(statement, *, min_rows=None):
        dsn = new_template(template=template)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(statement)
        if min_rows is not None:
            seal(dsn, min_rows=min_rows)
        return dsn

    return made_by


@pytest.fixture
def unsealed(made_by, table):
    """A database to read whose table has `ROWS` rows."""
    return made_by(filling(table))


@pytest.fixture
def sealed_once(made_by, table):
    """A database to read; of three themes only `work` has an index of its own.

    The half that is far from the question is old.
    """
    far = f"(embedding <=> '{QUESTION}') > 1"
    homes = ROWS + 1
    last = ROWS + HOME_ROWS
    statements = [
        filling(table),
        filling(table, HOME_ROWS, theme="home", first=homes),
        filling(table, FEW[table], theme="few", first=last + 1, seed=5),
        f"UPDATE memory_entries SET updated_at = '{OLD}' WHERE {far}",
        f"UPDATE conversations SET ts = '{OLD}' WHERE {far}",
        "ANALYZE memory_entries, conversations",
    ]
    return made_by(";".join(statements), min_rows=2_800)


def last_of(table):
    """The last row of `sealed_once`."""
    return ROWS + HOME_ROWS + FEW[table]


def database_of(dsn):
    return conninfo_to_dict(dsn)["dbname"]


def agreement(found, true):
    return len(set(found) & set(true)) / len(true)


def used(memory):
    """How often each sealed index was searched, by mark."""
    return used_on(memory.dsn)


def used_on(dsn):
    looking.look(dsn, "SELECT pg_stat_force_next_flush()")
    rows = looking.look(
        dsn,
        "SELECT indexrelname, idx_scan FROM pg_stat_user_indexes"
        " WHERE starts_with(indexrelname, 'pgmemory_sealed_')",
    )
    return {sealed.parse_name(name)[0]: scans for name, scans in rows}


class TestWithoutAnIndex:
    @pytest.fixture
    def dsn(self, unsealed):
        return unsealed

    def test_answers_are_exact(self, ask, nearest):
        assert ask() == nearest()

    def test_a_word_still_finds_its_row(self, ask):
        assert ask(text="tea 2045", vector=None)[0] == 2045

    def test_a_common_word_alone_finds_rows_all_the_same(self, ask):
        assert len(ask(text="tea", vector=None)) == 10

    def test_words_are_looked_up_where_nothing_was_ever_analyzed(
        self, new_database, unsealed, ask_on
    ):
        dsn = new_database(template=database_of(unsealed))
        with psycopg.connect(dsn) as conn:
            conn.execute("DELETE FROM pg_statistic WHERE starelid > 16383")
        assert ask_on(dsn, text="tea 2045", vector=None)[0] == 2045


class TestWithAnIndex:
    @pytest.fixture
    def dsn(self, sealed_once):
        return sealed_once

    def test_answers_are_nearly_the_same(self, memory, ask, nearest, eventually):
        before = used(memory)
        assert agreement(ask(), nearest()) >= 0.9
        assert agreement(ask(EVERYONE), nearest(where="true")) >= 0.9
        # A server process counts when it ends, which nobody waits for.
        eventually(lambda: all(used(memory)[mark] > before[mark] for mark in before))

    def test_a_word_still_finds_its_row(self, ask):
        assert 2045 in ask(text="tea 2045", limit=500)

    @pytest.mark.parametrize("table", [Table.ENTRIES])
    def test_the_nearest_may_all_be_excluded(self, memory):
        texts = {h.content for h in memory.entries("", vector=QUESTION, limit=500)}
        assert len(texts) == 500
        hits = memory.entries("", vector=QUESTION, exclude=texts, limit=20)
        assert len(hits) == 20
        assert texts.isdisjoint(hit.content for hit in hits)


class TestOnceSealed:
    @pytest.fixture
    def dsn(self, new_database, sealed_once):
        """A private copy of it."""
        return new_database(template=database_of(sealed_once))

    def test_hold_the_rows_behind_the_watermark(self, memory, table, ask, nearest, dsn):
        last = last_of(table)
        fill(memory, table, 1_500, first=last + 1, seed=4)
        true = nearest()
        assert any(row > last for row in true)
        assert [row for row in ask() if row > last] == [r for r in true if r > last]
        assert agreement(ask(), true) >= 0.9
        assert agreement(ask(EVERYONE), nearest(where="true")) >= 0.9

    def test_stay_right_in_a_process_that_does_not_know_of_a_new_index(
        self, memory, table, dsn, nearest
    ):
        with closing(Store(dsn)) as store:
            question = Question(text="", vector=QUESTION, scope=WORK, limit=10)
            search(store, table)(question, timeout_s=30)
            fill(memory, table, 600, first=last_of(table) + 1, seed=4)
            seal(dsn, min_rows=2_800)
            hits = search(store, table)(question, timeout_s=30)
            assert agreement([hit.id for hit in hits], nearest()) >= 0.9

    def test_stay_right_where_an_index_has_vanished(
        self, memory, table, dsn, ask, nearest
    ):
        found = "SELECT indexrelname FROM pg_stat_user_indexes WHERE indexrelname ~ %s"
        for name in memory.query(found, f"^{sealed.PREFIX}"):
            memory.query(f"DROP INDEX {name}")
        assert ask() == nearest()

    def test_another_models_vectors_in_an_index_do_not_count(
        self, memory, table, dsn, ask, nearest
    ):
        memory.query(
            "INSERT INTO memory_models (name, dimension) VALUES ('other', 3);"
            "UPDATE memory_settings SET value = '2' WHERE key = 'active_model_id';"
            "UPDATE memory_entries SET model_id = 2 WHERE id % 50 = 0;"
            "UPDATE conversations SET model_id = 2 WHERE id % 50 = 0;"
        )
        true = nearest(where="model_id = 2 AND agent_identity = 'work'")
        assert agreement(ask(), true) >= 0.9


class TestChoice:
    @pytest.fixture
    def dsn(self, sealed_once):
        return sealed_once

    def test_a_large_theme_uses_its_own_index_and_the_fleet_the_common_one(
        self, memory, ask, eventually
    ):
        assert set(used(memory)) == {"all", mark_of("work")}
        before = used(memory)
        ask()
        # A server process counts when it ends, which nobody waits for.
        eventually(lambda: used(memory)[mark_of("work")] > before[mark_of("work")])
        assert used(memory)["all"] == before["all"]
        ask(EVERYONE)
        eventually(lambda: used(memory)["all"] > before["all"])

    @pytest.mark.parametrize("theme", ["home", "few"])
    def test_a_theme_without_an_index_of_its_own_is_searched_exactly(
        self, ask, nearest, theme
    ):
        scope = Scope(theme=Theme(theme), subject=None)
        assert ask(scope) == nearest(where=f"agent_identity = '{theme}'")

    def test_an_index_that_ends_its_scan_early_is_not_the_last_word(
        self, new_database, ask_on, sealed_once, eventually
    ):
        dsn = new_database(template=database_of(sealed_once))
        with psycopg.connect(dsn, autocommit=True) as conn:
            name = sql.Identifier(conn.info.dbname)
            # The scan may look at few, and only those that are far count.
            conn.execute(
                sql.SQL("ALTER DATABASE {} SET hnsw.max_scan_tuples = 1").format(name)
            )
        before, old = used_on(dsn), Facets(until=OLD + timedelta(1))
        found = ask_on(dsn, EVERYONE, facets=old, limit=40)
        assert len(found) == 40
        eventually(lambda: used_on(dsn)["all"] > before["all"])


class TestNeverShort:
    @pytest.fixture
    def dsn(self, made_by, table):
        """A database to read: rows of contacts, of a session, of a target, and retired.

        None of these are many; with indexes over all.
        """
        statements = [
            filling(table, 2_200),
            *(
                f"UPDATE {name} SET subject = '{subject}' WHERE id % {share} = 1"
                for name in ("memory_entries", "conversations")
                for subject, share in SHARES.items()
            ),
            "UPDATE conversations SET session_id = 'rare' WHERE id % 90 = 0",
            "UPDATE memory_entries SET target = 'user' WHERE id % 45 = 0",
        ]
        return made_by(";".join(statements), min_rows=1_000)

    @pytest.mark.parametrize("subject", SHARES)
    def test_one_contacts_rows(self, memory, ask, nearest, subject):
        found = ask(Scope(theme=Theme("work"), subject=subject), limit=20)
        assert len(found) == 20
        assert agreement(found, nearest(20, f"subject = '{subject}'")) >= 0.9

    @pytest.mark.parametrize("table", [Table.TURNS])
    def test_one_session_of_many(self, memory):
        hits = memory.turns("", vector=QUESTION, session_id="rare", limit=12)
        assert len(hits) == 12

    @pytest.mark.parametrize("table", [Table.ENTRIES])
    def test_rows_of_one_target(self, memory):
        hits = memory.entries("", vector=QUESTION, target=Target.USER, limit=20)
        assert len(hits) == 20


@pytest.mark.parametrize("kept", [100, 3])
def test_retired_rows_make_no_answer_short(memory, dsn, kept):
    fill(memory, Table.ENTRIES, 2_200)
    memory.query(f"UPDATE memory_entries SET retired_at = now() WHERE id % {kept} <> 0")
    seal(dsn)
    hits = memory.entries("", vector=QUESTION, limit=20)
    assert len(hits) == 20
    assert all(hit.id % kept == 0 for hit in hits)


class TestTypes:
    def test_vector_columns_of_an_adopted_database(
        self, memory, table, dsn, ask, nearest, eventually
    ):
        for name in ("memory_entries", "conversations"):
            memory.query(f"ALTER TABLE {name} ALTER embedding TYPE vector(3)")
        fill(memory, table, ADOPTED_ROWS)
        exact = ask()
        assert exact == nearest()
        seal(dsn)
        before = used(memory)[mark_of("work")]
        assert agreement(ask(), exact) >= 0.9
        eventually(lambda: used(memory)[mark_of("work")] > before)

    def test_a_type_that_changed_since_it_was_looked_at(self, memory, dsn):
        fill(memory, Table.ENTRIES)
        exact = [hit.id for hit in memory.entries("", vector=QUESTION)]
        memory.query("ALTER TABLE memory_entries ALTER embedding TYPE vector(3)")
        assert [hit.id for hit in memory.entries("", vector=QUESTION)] == exact
        with closing(Store(dsn)) as fresh:
            question = Question(text="", vector=QUESTION, scope=WORK, limit=10)
            ask = partial(fresh.search_entries, question, timeout_s=30)
            assert [hit.id for hit in ask()] == exact
            memory.query("ALTER TABLE memory_entries ALTER embedding TYPE halfvec(3)")
            assert [hit.id for hit in ask()] == exact


def test_names_tell_theme_and_watermark_and_are_short():
    name = sealed.index_name(Table.TURNS, "x" * 300, 2**62)
    assert len(name) <= 63
    assert sealed.parse_name(name) == (mark_of("x" * 300), 2**62)
    assert sealed.parse_name(sealed.index_name(Table.ENTRIES, None, 7)) == ("all", 7)
    assert sealed.parse_name("pgmemory_sealed_of_somebody_else") is None
