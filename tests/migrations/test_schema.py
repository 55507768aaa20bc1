"""`schema.sql` against the migrations, and rules that every table keeps."""

from __future__ import annotations

from importlib.resources import files

import psycopg
import pytest

from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store import migrate

OURS = "relnamespace = 'public'::regnamespace"
CATALOGS = {
    "relations": f"""
        SELECT relname, relkind, reloptions, relpersistence,
               obj_description(oid, 'pg_class')
          FROM pg_class WHERE {OURS}""",
    "columns": f"""
        SELECT relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull,
               attstorage, attcompression, attidentity, attgenerated, attoptions,
               pg_get_expr(adbin, adrelid), col_description(attrelid, attnum)
          FROM pg_attribute
          JOIN pg_class ON pg_class.oid = attrelid
          LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
         WHERE {OURS} AND attnum > 0""",
    "constraints": f"""
        SELECT relname, conname, contype, pg_get_constraintdef(pg_constraint.oid)
          FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid WHERE {OURS}""",
    "indexes": f"""
        SELECT relname, pg_get_indexdef(indexrelid), indisvalid
          FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE {OURS}""",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'",
    "triggers": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
    "functions": """
        SELECT proname FROM pg_proc
          LEFT JOIN pg_depend ON objid = pg_proc.oid AND deptype = 'e'
         WHERE pronamespace = 'public'::regnamespace AND objid IS NULL""",
    "privileges": f"SELECT relname, relacl::text FROM pg_class WHERE {OURS}",
}


@pytest.fixture
def migrated(new_database):
    dsn = new_database()
    migrate.apply(dsn, EmbeddingModel(name="m", dimension=5))
    return dsn


def catalog(dsn, name):
    with psycopg.connect(dsn) as conn:
        rows = conn.execute(CATALOGS[name]).fetchall()
    return sorted(map(str, rows))


def test_the_schema_file_equals_the_migrations(migrated, new_database):
    written = new_database()
    text = files("hermes_pgmemory.store").joinpath("schema.sql").read_text()
    with psycopg.connect(written) as conn:
        conn.execute("CREATE EXTENSION vector")
        conn.execute(text.replace(":dimensions", "5"))
    for name in CATALOGS:
        assert catalog(written, name) == catalog(migrated, name), name
    assert catalog(migrated, "functions") == catalog(migrated, "triggers") == []


def test_every_unique_key_contains_the_theme(migrated):
    # The tables can be distributed by it; what is shared by all themes is small.
    shared = {
        "memory_migrations",
        "memory_settings",
        "memory_models",
        "memory_maintenance_log",
    }
    with psycopg.connect(migrated) as conn:
        keys = conn.execute(
            "SELECT indrelid::regclass::text,"
            " array_agg(attname::text) FROM pg_index"
            " JOIN pg_class ON pg_class.oid = indrelid"
            " JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)"
            f" WHERE indisunique AND {OURS} GROUP BY indexrelid, indrelid"
        ).fetchall()
    themes = {"agent_identity", "parent_identity"}
    without = {table for table, columns in keys if not themes & set(columns)}
    assert without == shared
    assert len(keys) > len(shared)


def test_no_index_over_vectors_slows_the_writers_down(migrated):
    with psycopg.connect(migrated) as conn:
        methods = conn.execute(
            f"SELECT DISTINCT amname FROM pg_class JOIN pg_am ON pg_am.oid = relam"
            f" WHERE relkind = 'i' AND {OURS}"
        ).fetchall()
    assert sorted(methods) == [("btree",), ("gin",)]


def test_every_table_and_view_of_the_original_has_its_columns(migrated):
    original = {
        "memory_entries": "id agent_identity target content embedding created_at"
        " updated_at metadata",
        "conversations": "id session_id agent_identity role content ts embedding"
        " metadata parent_session_id",
        "memory_agents": "agent_identity kind first_seen last_seen attrs",
        "memory_agent_edges": "id parent_identity child_identity parent_session_id"
        " child_session_id kind ts attrs",
        "memory_maintenance_log": "id ts operation target_table identity_pattern"
        " affected_count dropped_dupes dry_run details",
        "v_agent_memory": "agent_identity kind memory_rows conversation_rows"
        " first_seen last_seen",
    }
    with psycopg.connect(migrated) as conn:
        for table, columns in original.items():
            found = conn.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass",
                [table],
            ).fetchall()
            assert set(columns.split()) <= {name for (name,) in found}, table
