from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_pgmemory.errors import ConfigError, DatabaseUnavailable, SchemaError
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store import Store, migrate
from hermes_pgmemory.store.queries import QUERIES

MODEL = EmbeddingModel(
    name="nomic-embed-text",
    dimension=4,
    query_prefix="search_query: ",
    document_prefix="search_document: ",
)
VERSIONS = [migration.version for migration in migrate.shipped()]


@pytest.fixture
def empty(new_database):
    return new_database()


@contextmanager
def admin(dsn):
    with psycopg.connect(dsn, autocommit=True) as conn:
        yield conn


def facts(dsn):
    with closing(Store(dsn)) as store:
        return store.verify(timeout_s=10)


def database(dsn):
    return sql.Identifier(conninfo_to_dict(dsn)["dbname"])


class TestApply:
    def test_makes_a_database_ready(self, empty):
        assert migrate.apply(empty, MODEL, text_search_config="english") == VERSIONS
        ready = facts(empty)
        assert ready.model == MODEL
        assert ready.text_search_config == "english"
        assert len(bytes.fromhex(ready.subject_key)) == 32

    def test_is_a_no_op_the_second_time(self, empty):
        migrate.apply(empty, MODEL)
        before = facts(empty)
        other = EmbeddingModel(name="other", dimension=9)
        assert migrate.apply(empty, other, text_search_config="german") == []
        assert facts(empty) == before

    def test_gives_every_database_a_key_of_its_own(self, empty, new_database):
        other = new_database()
        migrate.apply(empty, MODEL)
        migrate.apply(other, MODEL)
        assert facts(empty).subject_key != facts(other).subject_key

    def test_settles_again_what_was_lost(self, empty):
        migrate.apply(empty, MODEL)
        with admin(empty) as conn:
            conn.execute("DELETE FROM memory_settings WHERE key <> 'subject_key'")
        assert migrate.apply(empty, MODEL, text_search_config="german") == []
        settled = facts(empty)
        assert (settled.model, settled.text_search_config) == (MODEL, "german")

    def test_is_all_or_nothing(self, empty):
        with admin(empty) as conn:
            conn.execute("CREATE TABLE memory_agents ()")
        with pytest.raises(
            SchemaError, match='"memory_agents" already exists, but not'
        ):
            migrate.apply(empty, MODEL)
        with admin(empty) as conn:
            tables = conn.execute(
                "SELECT relname FROM pg_class WHERE relname LIKE 'memory_%'"
                " AND relkind = 'r'"
            )
            assert tables.fetchall() == [("memory_agents",)]
            assert migrate.pending(conn) == VERSIONS

    def test_lets_concurrent_callers_queue(self, empty):
        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(lambda _: migrate.apply(empty, MODEL), range(4)))
        assert sorted(done) == [[], [], [], VERSIONS]

    def test_goes_where_the_search_path_leads(self, empty):
        with admin(empty) as conn:
            conn.execute("CREATE SCHEMA mine")
            conn.execute(
                sql.SQL("ALTER DATABASE {} SET search_path = mine, public").format(
                    database(empty)
                )
            )
        migrate.apply(empty, MODEL)
        with admin(empty) as conn:
            found = conn.execute("SELECT 'mine.memory_entries'::regclass").fetchall()
        assert found
        assert facts(empty).model == MODEL

    def test_finishes_what_an_older_release_began(self, empty, monkeypatch):
        everything = migrate.shipped()
        monkeypatch.setattr(migrate, "shipped", lambda: everything[:1])
        migrate.apply(empty, MODEL)
        monkeypatch.undo()
        with admin(empty) as conn:
            assert migrate.pending(conn) == VERSIONS[1:]
        # Whose vectors the database holds is settled by now, whatever is asked for.
        assert (
            migrate.apply(empty, EmbeddingModel(name="x", dimension=9)) == VERSIONS[1:]
        )
        assert facts(empty).model == MODEL
        with admin(empty) as conn:
            length = conn.execute(
                "SELECT atttypmod FROM pg_attribute"
                " WHERE attrelid = 'conversations'::regclass AND attname = 'embedding'"
            )
            assert length.fetchall() == [(MODEL.dimension,)]

    @pytest.mark.parametrize("dimension", [1, 3072, 4096, 16_000])
    def test_takes_every_length_a_halfvec_has(self, empty, dimension):
        migrate.apply(empty, EmbeddingModel(name="m", dimension=dimension))
        with admin(empty) as conn:
            conn.execute(
                "INSERT INTO memory_entries (agent_identity, target, content,"
                " content_hash, tsv, model_id, embedding) VALUES"
                " ('a', 'memory', 'x', 'x', '', 1,"
                " array_fill(0.1, ARRAY[%s])::halfvec)",
                [dimension],
            )


class TestRefusals:
    def test_an_edited_migration(self, empty):
        migrate.apply(empty, MODEL)
        with admin(empty) as conn:
            conn.execute(
                "UPDATE memory_migrations SET checksum = 'x' WHERE version = %s",
                VERSIONS[:1],
            )
        with pytest.raises(SchemaError) as refused:
            migrate.apply(empty, MODEL)
        assert f"{VERSIONS[0]} was edited after it was applied" in str(refused.value)
        assert "`hermes-pgvector migrate`" in str(refused.value)

    def test_a_newer_database(self, empty):
        migrate.apply(empty, MODEL)
        with admin(empty) as conn:
            conn.execute("INSERT INTO memory_migrations VALUES ('9999_future', 'x')")
        with pytest.raises(
            SchemaError, match=r"newer than this package.*9999_future"
        ) as no:
            migrate.apply(empty, MODEL)
        assert "`hermes-pgvector migrate`" in str(no.value)

    @pytest.mark.parametrize("dimension", [0, -1, 16_001])
    def test_a_length_no_halfvec_has(self, dimension):
        with pytest.raises(ConfigError, match=f"{dimension} dimensions.*16,000"):
            migrate.apply(
                "host=nowhere.invalid", EmbeddingModel(name="m", dimension=dimension)
            )

    def test_an_unknown_text_search_config(self, empty):
        with pytest.raises(ConfigError, match=r"text_search_config.*'klingon'"):
            migrate.apply(empty, MODEL, text_search_config="klingon")
        with admin(empty) as conn:
            assert migrate.pending(conn) == VERSIONS

    def test_an_unreachable_database(self):
        with pytest.raises(DatabaseUnavailable, match=r"at host 127\.0\.0\.1 port 1"):
            migrate.apply("host=127.0.0.1 port=1 password=s3cret", MODEL)

    def test_a_bad_connection_string(self):
        with pytest.raises(ConfigError, match=r"plugins\.pgvector\.dsn"):
            migrate.apply("s3cret", MODEL)

    def test_an_old_extension(self, empty):
        with admin(empty) as conn:
            conn.execute("CREATE EXTENSION vector")
            conn.execute(
                "UPDATE pg_extension SET extversion = '0.6.2' WHERE extname = 'vector'"
            )
        with pytest.raises(
            SchemaError, match=r"pgvector 0\.6\.2 has no halfvec"
        ) as refused:
            migrate.apply(empty, MODEL)
        assert "ALTER EXTENSION vector UPDATE" in str(refused.value)


class TestRoles:
    @pytest.fixture
    def owner(self, empty, new_role):
        """A DSN of a role that owns the database and is no superuser."""
        role = new_role()
        with admin(empty) as conn:
            alter = sql.SQL("ALTER DATABASE {} OWNER TO {}")
            conn.execute(alter.format(database(empty), sql.Identifier(role)))
        return make_conninfo(empty, user=role)

    @pytest.fixture
    def runtime(self, empty, owner, new_role):
        """A DSN of a role with nothing but DML on the owner's tables."""
        role = new_role()
        with admin(empty) as conn:
            conn.execute("CREATE EXTENSION vector")
        migrate.apply(owner, MODEL)
        with psycopg.connect(owner, autocommit=True) as conn:
            grant = sql.SQL(
                "GRANT SELECT, INSERT, UPDATE, DELETE"
                " ON ALL TABLES IN SCHEMA public TO {}"
            )
            conn.execute(grant.format(sql.Identifier(role)))
        return make_conninfo(empty, user=role)

    def test_an_owner_needs_a_superuser_for_the_extension_alone(self, empty, owner):
        with pytest.raises(SchemaError) as refused:
            migrate.apply(owner, MODEL)
        name = conninfo_to_dict(empty)["dbname"]
        assert f"pgvector is not in database {name}" in str(refused.value)
        assert "as a superuser, run CREATE EXTENSION vector there" in str(refused.value)
        with admin(empty) as conn:
            conn.execute("CREATE EXTENSION vector")
        assert migrate.apply(owner, MODEL) == VERSIONS
        assert facts(owner).model == MODEL

    def test_a_stranger_is_told_to_ask_the_owner(self, empty, new_role):
        role = new_role()
        with admin(empty) as conn:
            conn.execute("CREATE EXTENSION vector")
        with pytest.raises(
            SchemaError, match="permission denied for schema"
        ) as refused:
            migrate.apply(make_conninfo(empty, user=role), MODEL)
        assert f"as the database's owner, not as {role}" in str(refused.value)

    def test_a_role_with_dml_alone_may_ask_for_a_migration_in_vain(self, runtime):
        assert migrate.apply(runtime, MODEL) == []


def test_nothing_but_the_ledger_decides_what_is_pending(empty):
    with admin(empty) as conn:
        assert migrate.pending(conn) == VERSIONS
        assert not conn.execute(QUERIES["has_ledger"]).fetchall()[0][0]
