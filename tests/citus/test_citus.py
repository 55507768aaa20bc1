"""The schema and what agents run keep Citus' rules; nothing here has met a Citus."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from citus_statements import judge
from citus_tables import Catalog, Layout, Table, judge_schema, layout_of

from hermes_pgmemory.store.queries import QUERIES

ROOT = Path(__file__).parents[2]
STORE = ROOT / "src/hermes_pgmemory/store"
PAGE = (ROOT / "docs/how-to/citus.md").read_text()
LAYOUT = layout_of(PAGE)
LOCAL = {"memory_migrations", "memory_maintenance_log"}

ADMINISTRATORS = (
    *("adopt", "convert", "dashboard", "dump", "forget", "history", "index", "ledger"),
    *("maintenance", "moving", "probe", "reembed", "roles"),
)
"""Files of what only commands run; all others are of the run-time path."""
ALSO_RUN_BY_AGENTS = {"facts", "forgotten"}

BY_ROW = "names each row's own theme: Citus sends each row to its shard, or asks each"
EXCEPTIONS: dict[str, dict[str, str]] = {
    "spreads": {
        "lock_positions": "a batch of several themes locks all their places at once",
        "add_turns": "a batch holds turns of several themes; " + BY_ROW,
        "enter_file": "a memory file is mirrored by several themes; " + BY_ROW,
        "leave_file": "a memory file is mirrored by several themes; " + BY_ROW,
        "leave_ancestors": "a memory file is mirrored by several themes; " + BY_ROW,
        "set_entry_vectors": "backfill and healing go through all themes; " + BY_ROW,
        "set_turn_vectors": "backfill and healing go through all themes; " + BY_ROW,
    },
    "lateral": {
        "known_entries": "asks for the texts of one batch, each in its theme",
        "known_turns": "asks for the texts of one batch, each in its theme",
        "search_many_entries": "the rarest words bring so many rows each",
        "search_few_turns": "two turns before and after each candidate",
        "search_many_turns": "two turns before and after each candidate",
        "read_turns": "one turn before and after each",
        "unembedded_turns": "a turn is embedded with the one before it",
    },
}
"""Rule, and the statements that do not keep it, each with what it does instead."""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    catalog = Catalog()
    catalog.apply((STORE / "schema.sql").read_text())
    return catalog


def run_time() -> list[str]:
    text = {file.stem: file.read_text() for file in STORE.glob("*.sql")}
    names = {
        name
        for stem in ADMINISTRATORS
        for name in re.findall(r"^-- :name (\w+)", text[stem], re.MULTILINE)
    }
    return sorted(QUERIES.keys() - names | ALSO_RUN_BY_AGENTS)


class TestSchema:
    def test_every_table_has_its_place(self, catalog: Catalog):
        placed = LAYOUT.distributed.keys() | LAYOUT.reference | LOCAL
        assert placed == catalog.tables.keys()
        assert all(f"`{name}`" in PAGE for name in LOCAL)

    def test_keeps_the_rules(self, catalog: Catalog):
        assert judge_schema(catalog, LAYOUT) == []

    def test_so_does_every_migration_on_the_way(self):
        catalog = Catalog()
        for file in sorted((STORE / "migrations").glob("*.sql")):
            catalog.apply(file.read_text())
            assert judge_schema(catalog, LAYOUT) == [], file.name


class TestStatements:
    @pytest.mark.parametrize("name", run_time())
    def test_of_agents_keep_the_rules(self, name: str, catalog: Catalog):
        excepted = {rule for rule, names in EXCEPTIONS.items() if name in names}
        assert judge(QUERIES[name], catalog, LAYOUT) == excepted

    def test_that_do_not_are_on_the_page(self):
        for names in EXCEPTIONS.values():
            assert [name for name in names if f"`{name}`" not in PAGE] == []

    def test_of_remap_change_the_theme_as_the_page_warns(self, catalog: Catalog):
        assert "moves" in judge(QUERIES["remap_entries"], catalog, LAYOUT)


# The rest proves that the judge can find something.

A_B = Layout({"a": "theme", "b": "owner"}, frozenset({"ref"}))


def made(ddl: str) -> Catalog:
    catalog = Catalog()
    catalog.apply(ddl)
    return catalog


@pytest.fixture(scope="module")
def tables() -> Catalog:
    rest = {"id": "int8", "said": "text"}
    a, b, ref = {"theme": "text"} | rest, {"owner": "text"} | rest, rest
    return Catalog({"a": Table(a), "b": Table(b), "ref": Table(ref)})


GOOD = "CREATE TABLE a (theme text NOT NULL, id bigint, PRIMARY KEY (theme, id));"


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("CREATE TABLE a (theme text, id bigint UNIQUE)", "lacks theme"),
        (GOOD + "ALTER TABLE a ADD UNIQUE (id)", "lacks theme"),
        (GOOD + "ALTER TABLE a ADD n int UNIQUE", "lacks theme"),
        (GOOD + "CREATE UNIQUE INDEX i ON a (id)", "lacks theme"),
        (GOOD + "CREATE UNIQUE INDEX i ON a (lower(theme))", "lacks theme"),
        ("CREATE TABLE a (theme text, id bigint)", "may be NULL"),
        ("CREATE TABLE a (theme int PRIMARY KEY)", "not a text"),
        (GOOD + "ALTER TABLE a ADD n int GENERATED ALWAYS AS IDENTITY", "no bigint"),
        (GOOD + "ALTER TABLE a ADD n int REFERENCES b (id)", "both sides"),
        (
            GOOD + "ALTER TABLE a ADD FOREIGN KEY (id, theme) REFERENCES b (owner, id)",
            "both sides",
        ),
        ("CREATE TABLE ref (id int REFERENCES b (id))", "both sides"),
        (GOOD + "ALTER TABLE a ADD n int REFERENCES loc (id)", "on the coordinator"),
        ("DO $$ BEGIN EXECUTE 'ALTER TABLE a ADD UNIQUE (id)'; END $$", "DO"),
    ],
)
def test_a_bad_table_is_found(ddl: str, said: str):
    assert any(said in finding for finding in judge_schema(made(ddl), A_B))


@pytest.mark.parametrize(
    "ddl",
    [
        GOOD,
        GOOD + "ALTER TABLE a ADD n bigint REFERENCES ref (id)",
        GOOD + "ALTER TABLE a ADD FOREIGN KEY (theme, id) REFERENCES b (owner, id)",
        "CREATE TABLE loc (id int PRIMARY KEY, n int REFERENCES ref (id))",
    ],
)
def test_a_good_table_passes(ddl: str):
    assert judge_schema(made(ddl), A_B) == []


DELETE_A = "WITH x AS (DELETE FROM a WHERE theme = %(t)s) "
UPSERT = "INSERT INTO a (id, theme) VALUES (1, %(t)s) ON CONFLICT (theme) DO UPDATE"


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("SELECT FROM a JOIN b USING (id)", "joins"),
        ("SELECT FROM a, b WHERE a.theme = b.said", "joins"),
        ("SELECT FROM a JOIN b ON a.theme = b.owner OR a.id = b.id", "joins"),
        ("SELECT FROM a AS x JOIN a AS y USING (id)", "joins"),
        ("SELECT FROM a WHERE id IN (SELECT id FROM b)", "joins"),
        ("SELECT (SELECT said FROM b WHERE b.id = a.id) FROM a", "joins"),
        ("SELECT FROM a, b WHERE theme = %(t)s AND owner = %(u)s", "joins"),
        ("WITH x AS (SELECT * FROM a) SELECT FROM x JOIN x AS y USING (id)", "joins"),
        ("WITH x AS (SELECT id FROM a) SELECT FROM x JOIN b USING (id)", "joins"),
        ("DELETE FROM a USING b WHERE a.id = b.id AND theme = %(t)s", "joins"),
        (DELETE_A + "DELETE FROM b WHERE owner = %(u)s", "spreads"),
        ("SELECT FROM (SELECT id FROM a UNION SELECT id FROM b) x, a", "joins"),
        ("UPDATE a SET theme = %(t)s WHERE theme = %(u)s", "moves"),
        (
            UPSERT + " SET theme = 'x'",
            "moves",
        ),
        ("DELETE FROM a WHERE id = %(id)s", "spreads"),
        ("DELETE FROM a WHERE theme = %(t)s OR id = 1", "spreads"),
        ("UPDATE a SET said = 'x' WHERE theme = said", "spreads"),
        ("INSERT INTO a (theme) VALUES (%(t)s), (%(u)s)", "spreads"),
        ("INSERT INTO a (theme) SELECT owner FROM b", "spreads"),
        ("WITH x AS (DELETE FROM a RETURNING 1) SELECT count(*) FROM x", "spreads"),
        (
            "INSERT INTO a (theme, id) VALUES (%(t)s, 1) ON CONFLICT (id) DO NOTHING",
            "conflict",
        ),
        (
            UPSERT + " SET said = now()",
            "conflict",
        ),
        (
            UPSERT + " SET said = current_timestamp",
            "conflict",
        ),
        (
            "WITH RECURSIVE x AS (SELECT id FROM a UNION TABLE x) SELECT FROM x",
            "recurses",
        ),
        ("SELECT FROM a WHERE id = 1 FOR UPDATE", "locks"),
        (
            "SELECT FROM a, LATERAL (SELECT FROM b WHERE owner = theme LIMIT 1) AS x",
            "lateral",
        ),
        ("CREATE INDEX ON a (id)", "alien"),
    ],
)
def test_a_bad_statement_is_found(sql: str, rule: str, tables: Catalog):
    assert rule in judge(sql, tables, A_B)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT FROM a JOIN b ON owner = theme",
        "SELECT FROM a, b WHERE theme = %(t)s AND owner = %(t)s",
        "SELECT FROM a AS x JOIN a AS y USING (theme, id)",
        "SELECT FROM a WHERE EXISTS (SELECT FROM b WHERE owner = theme)",
        "WITH x AS (SELECT theme AS t FROM a) SELECT FROM x JOIN b ON owner = t",
        "WITH x AS MATERIALIZED (SELECT id FROM a) SELECT FROM x JOIN b USING (id)",
        "SELECT FROM a JOIN ref USING (id)",
        DELETE_A + "DELETE FROM b WHERE owner = %(t)s",
        "SELECT id FROM a UNION ALL SELECT id FROM b",
        "SELECT FROM a WHERE theme = %(t)s AND id = 1 FOR UPDATE",
        "DELETE FROM a USING b WHERE theme = owner AND owner = %(t)s::text",
        UPSERT + " SET said = coalesce(EXCLUDED.said, a.said)",
    ],
)
def test_a_good_statement_passes(sql: str, tables: Catalog):
    assert judge(sql, tables, A_B) == set()
