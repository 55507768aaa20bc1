"""`schema.sql` against the migrations, and rules that every table keeps."""

from __future__ import annotations

import psycopg
import pytest
from migrations_kit import CATALOGS, OURS, catalog, written

from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store import migrate


@pytest.fixture
def migrated(new_database):
    dsn = new_database()
    migrate.apply(dsn, EmbeddingModel(name="m", dimension=5))
    return dsn


def test_the_schema_file_equals_the_migrations(migrated, new_database):
    by_hand = new_database()
    written(by_hand, dimension=5)
    for name in CATALOGS:
        assert catalog(by_hand, name) == catalog(migrated, name), name
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
