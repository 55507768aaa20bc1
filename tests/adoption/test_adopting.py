"""`migrate` on the databases that published releases made."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import adoption_kit as kit
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_pgmemory.errors import ConfigError, DatabaseUnavailable, SchemaError
from hermes_pgmemory.models import EmbeddingModel, Target
from hermes_pgmemory.store import migrate

VERSIONS = [migration.version for migration in migrate.shipped()]
ROWS = """
SELECT 'entry', content, created_at, embedding::text FROM memory_entries
 UNION ALL
SELECT 'turn', content, ts, embedding::text FROM conversations
"""


@pytest.mark.parametrize("release", kit.RELEASES)
class TestEveryRelease:
    def test_keeps_every_row_text_time_and_vector(self, old_of, release):
        dsn = old_of(release)
        before = Counter(kit.query(dsn, ROWS))
        done = migrate.upgrade(dsn, kit.MODEL)
        assert done.applied == VERSIONS
        after = Counter(kit.query(dsn, ROWS))
        # Work and work are one theme: of one text told in both, the one with a vector.
        gone = before - after
        assert [(row[1], row[3]) for row in gone] == [("shared", None)]
        assert after - before == Counter()
        assert done.adopted.entries.merged == 1
        assert done.adopted.entries.rows == sum(
            r[0] == "entry" for r in before.elements()
        )

    def test_becomes_what_a_fresh_database_is(self, old_of, dsn_of, release):
        dsn = old_of(release)
        migrate.upgrade(dsn, kit.MODEL)
        adopted, fresh = kit.shape(dsn), kit.shape(dsn_of(kit.DIMENSION))
        for name in adopted:
            # But for the type of the vectors.
            like_fresh = [row.replace("'vector(", "'halfvec(") for row in adopted[name]]
            assert sorted(like_fresh) == fresh[name], name

    def test_recalls_at_once_by_meaning_and_by_words(self, old_of, store_on, release):
        dsn = old_of(release)
        migrate.upgrade(dsn, kit.MODEL)
        store = store_on(dsn)
        facts = store.verify(timeout_s=10)
        assert (facts.model, facts.text_search_config) == (kit.MODEL, "english")
        for n in (3, 77):
            asked = kit.asked(vector=kit.vector(n))
            found = store.search_entries(asked, timeout_s=10)
            assert found[0].content == f"note number {n} about subject-{n}"
            assert found[0].similarity == pytest.approx(1, abs=1e-3)
            turns = store.search_turns(asked, timeout_s=10)
            assert turns[0].content == f"we spoke of matter-{n}"
        found = store.search_entries(
            kit.asked("marmalade"), target=Target.MEMORY, timeout_s=10
        )
        assert found[0].content == "told without a vector, about marmalade"

    def test_finds_words_of_every_language(self, old_of, store_on, release):
        dsn = old_of(release)
        kit.query(
            dsn,
            "INSERT INTO memory_entries (agent_identity, target, content)"
            " VALUES ('work', 'memory', '周三讨论备份计划') RETURNING 1",
        )
        kit.query(
            dsn,
            "INSERT INTO conversations (session_id, agent_identity, role, content)"
            " VALUES ('s', 'work', 'user', '周三讨论备份计划') RETURNING 1",
        )
        migrate.upgrade(dsn, kit.MODEL)
        store = store_on(dsn)
        entries = store.search_entries(kit.asked("备份"), timeout_s=10)
        turns = store.search_turns(kit.asked("备份"), timeout_s=10)
        assert [hit.content for hit in entries + turns] == ["周三讨论备份计划"] * 2


class TestOnce:
    def test_the_second_time_nothing_is_done(self, adopted):
        before = kit.query(adopted, ROWS)
        again = migrate.upgrade(adopted, kit.MODEL)
        assert (again.applied, again.adopted) == ([], None)
        assert kit.query(adopted, ROWS) == before

    def test_concurrent_callers_queue(self, old):
        with ThreadPoolExecutor(3) as pool:
            done = list(pool.map(lambda _: migrate.apply(old, kit.MODEL), range(3)))
        assert sorted(done) == [[], [], VERSIONS]

    def test_it_is_all_or_nothing(self, old):
        with psycopg.connect(old) as conn:
            conn.execute("CREATE VIEW theirs AS SELECT * FROM memory_agents")
        before, was = Counter(kit.query(old, ROWS)), kit.shape(old)
        with pytest.raises(SchemaError, match="drop what depends on it"):
            migrate.upgrade(old, kit.MODEL)
        assert (Counter(kit.query(old, ROWS)), kit.shape(old)) == (before, was)
        assert not kit.query(old, "SELECT 1 FROM pg_class WHERE relname LIKE '%models'")

    def test_later_migrations_apply_to_it_like_to_any_other(self, old, monkeypatch):
        later = migrate.Migration(
            version="9999_later", text="ALTER TABLE conversations ADD mood text;"
        )
        shipped = migrate.shipped()
        monkeypatch.setattr(migrate, "shipped", lambda: (*shipped, later))
        assert migrate.apply(old, kit.MODEL) == [*VERSIONS, "9999_later"]
        assert kit.query(old, "SELECT DISTINCT mood FROM conversations") == [None]
        ledger = "SELECT version, checksum FROM memory_migrations ORDER BY version"
        assert kit.query(old, ledger) == [
            (m.version, m.checksum) for m in migrate.shipped()
        ]


class TestBesideOldAgents:
    def test_what_they_write_before_is_kept_and_after_it_refused(self, old):
        with kit.Old(old) as agent:
            agent.entry("in time", embedding=kit.vector(300))
            migrate.upgrade(old, kit.MODEL)
            with pytest.raises(psycopg.errors.NotNullViolation):
                agent.entry("too late")
        assert kit.query(
            old, "SELECT model_id FROM memory_entries WHERE content = 'in time'"
        ) == [1]

    def test_a_long_transaction_of_theirs_is_not_waited_for_for_ever(self, old):
        with psycopg.connect(old) as busy:
            busy.execute(
                "INSERT INTO memory_entries (target, content) VALUES ('user', 'x')"
            )
            with pytest.raises(DatabaseUnavailable):
                migrate.upgrade(old, kit.MODEL)
        assert migrate.apply(old, kit.MODEL) == VERSIONS


class TestRefusals:
    def test_a_model_of_another_length(self, old):
        other = EmbeddingModel(name="multilingual-e5-small-q4", dimension=384)
        was = kit.shape(old)
        with pytest.raises(ConfigError, match=r"e5-small-q4 .* 384 .* holds 768: set"):
            migrate.upgrade(old, other)
        assert kit.shape(old) == was

    def test_tables_of_somebody_else(self, new_database):
        dsn = new_database()
        with psycopg.connect(dsn) as conn:
            conn.execute("CREATE EXTENSION vector")
            conn.execute("CREATE TABLE memory_entries (id int, embedding vector(768))")
        with pytest.raises(SchemaError, match='"memory_entries" already exists'):
            migrate.upgrade(dsn, kit.MODEL)


class TestRoles:
    @pytest.fixture
    def split(self, old, new_role):
        """An owner of the database, and a runtime role that may only change rows."""
        owner, runtime = new_role(), new_role()
        database = sql.Identifier(conninfo_to_dict(old)["dbname"])
        with psycopg.connect(old, autocommit=True) as conn:
            for text, name in (
                ("ALTER DATABASE {db} OWNER TO {role}", owner),
                ("ALTER SCHEMA public OWNER TO {role}", owner),
                ("GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}", runtime),
                ("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}", runtime),
            ):
                conn.execute(
                    sql.SQL(text).format(db=database, role=sql.Identifier(name))
                )
            tables = kit.query(
                old,
                "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'v') AND"
                " relnamespace = 'public'::regnamespace",
            )
            for table in tables:
                alter = sql.SQL("ALTER TABLE {} OWNER TO {}")
                conn.execute(alter.format(sql.Identifier(table), sql.Identifier(owner)))
        return make_conninfo(old, user=owner), make_conninfo(old, user=runtime)

    def test_whoever_could_write_still_can(self, split, store_on):
        owner, runtime = split
        done = migrate.upgrade(owner, kit.MODEL)
        role = conninfo_to_dict(runtime)["user"]
        assert role in done.adopted.granted
        store = store_on(runtime)
        store.verify(timeout_s=10)
        found = store.search_entries(kit.asked("marmalade"), timeout_s=10)
        assert len(found) == 1
        with psycopg.connect(runtime) as conn:
            conn.execute("UPDATE memory_entries SET updated_at = now()")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute("CREATE TABLE mine (x int)")

    def test_agents_that_own_the_old_tables_get_the_new_ones(
        self, old, new_role, store_on
    ):
        role = new_role()
        with psycopg.connect(old, autocommit=True) as conn:
            for table in ("memory_entries", "conversations"):
                alter = sql.SQL("ALTER TABLE {} OWNER TO {}")
                conn.execute(alter.format(sql.Identifier(table), sql.Identifier(role)))
        done = migrate.upgrade(old, kit.MODEL)
        assert role in done.adopted.granted
        store = store_on(make_conninfo(old, user=role))
        assert store.verify(timeout_s=10).model == kit.MODEL
        with psycopg.connect(old, autocommit=True) as conn:
            conn.execute(
                sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(
                    sql.Identifier(role)
                )
            )

    def test_a_role_that_does_not_own_the_tables_is_told_so(self, split):
        with pytest.raises(SchemaError, match="as the database's owner, not as"):
            migrate.upgrade(split[1], kit.MODEL)


class TestTheCommand:
    MODEL = ("--model", "nomic-embed-text", "--dimensions", "768")

    def test_tells_what_it_took_and_what_it_decided(self, old, run):
        status, out, err = run("migrate", *self.MODEL, dsn=old)
        assert (status, err) == (0, "")
        assert "162 entries and 157 turns, with all their vectors" in out
        assert "1 entries were duplicates" in out
        assert "2 rows of direct messages or groups name no contact" in out
        assert "next: hermes-pgvector remap 'skill-bench-7' _bench" in out
        assert "hermes-pgvector cleanup, for 2 blank rows" in out
        assert "hermes-pgvector backfill, for 7 rows" in out
        assert kit.PHONE not in out
        assert run("migrate", *self.MODEL, dsn=old)[1] == "up to date\n"

    def test_tells_programs_the_same(self, old, run):
        status, out, _ = run("migrate", *self.MODEL, "--json", dsn=old)
        told = json.loads(out)
        assert (status, told["applied"]) == (0, VERSIONS)
        assert told["adopted"]["entries"]["rows"] == 162
        assert told["adopted"]["entries"]["hidden"] == 1

    def test_another_length_is_an_operators_error(self, old, run):
        status, _, err = run("migrate", "--model", "x", "--dimensions", "384", dsn=old)
        assert (status, err.count("\n")) == (1, 1)
        assert "384" in err
        assert "768" in err

    def test_setup_does_it_too_and_asks_a_question(self, old, run, endpoint):
        status, out, err = run("setup", dsn=old, embed_url=endpoint.url)
        assert status == 0, err
        assert "took over 319 rows of hermes-memory-pgvector" in out + err
        assert "a question was embedded" in out + err
