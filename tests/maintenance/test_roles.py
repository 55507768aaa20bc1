from __future__ import annotations

import io
import sys

import psycopg
import pytest
from maintenance_kit import Memory, days_ago
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hermes_pgmemory.errors import SchemaError
from hermes_pgmemory.store import Store, roles

MODEL = ("--model", "test", "--dimensions", "3")
GRANTED = """
SELECT table_name, string_agg(privilege_type, ' ' ORDER BY privilege_type)
  FROM information_schema.role_table_grants
 WHERE grantee = %s
 GROUP BY table_name
"""
ROWS = "DELETE INSERT SELECT UPDATE"


def privileges(dsn, role):
    with psycopg.connect(dsn) as conn:
        return dict(conn.execute(GRANTED, [role]).fetchall())


class TestGranting:
    def test_the_configured_user_gets_what_agents_need_and_no_more(
        self, run, configure, new_database, new_role
    ):
        dsn, role = new_database(), new_role()
        configure(dsn=make_conninfo(dsn, user=role))
        for applied in (True, False):
            ran = run("migrate", "--admin-dsn", dsn, *MODEL, "--json")
            assert ran.status == 0, ran.err
            assert ran.data["granted_to"] == role
            assert bool(ran.data["applied"]) is applied
        assert privileges(dsn, role) == {
            "memory_migrations": "SELECT",
            "memory_settings": "SELECT",
            "memory_models": "SELECT",
            "memory_journal_positions": ROWS,
            "memory_entry_history": ROWS,
            "memory_forgotten": ROWS,
            "memory_entries": ROWS,
            "conversations": ROWS,
            "memory_agents": ROWS,
            "memory_agent_edges": ROWS,
            "memory_maintenance_log": "INSERT SELECT UPDATE",
            "v_agent_memory": "SELECT",
        }

    def test_tables_of_others_are_not_touched(self, dsn, new_role):
        role = new_role()
        with psycopg.connect(dsn) as conn:
            conn.execute("CREATE TABLE somebody_elses (x int)")
        roles.grant(dsn, role)
        assert "somebody_elses" not in privileges(dsn, role)

    def test_the_role_then_runs_every_command(
        self, run, configure, dsn, new_role, endpoint
    ):
        role = new_role()
        with psycopg.connect(dsn) as conn:
            conn.execute("REVOKE ALL ON SCHEMA public FROM public")
        roles.grant(dsn, role)
        runtime = make_conninfo(dsn, user=role)
        store = Store(runtime, pool_size=1)
        memory = Memory(store, dsn)
        memory.apply(memory.entry("tea"), memory.turn("old", at=days_ago(9)))
        store.close()
        configure(dsn=runtime, embed_url=endpoint.url, embed_model="test")
        for words in (
            ["stats"],
            ["backfill"],
            ["cleanup", "--execute"],
            ["remap", "work", "home", "--execute"],
            ["history", "--theme", "home"],
            ["forget", "--theme", "other", "--execute"],
            ["prune", "--days", "1", "--execute"],
            ["migrate", "--check"],
        ):
            ran = run(*words)
            assert ran.status == 0, ran.err
        assert memory.contents("home") == ["tea"]
        with (
            psycopg.connect(runtime) as conn,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            conn.execute("CREATE TABLE mine (x int)")

    def test_a_named_role_needs_no_other_dsn(self, run, dsn, new_role):
        role = new_role()
        ran = run("migrate", *MODEL, "--runtime-role", role)
        assert ran.status == 0, ran.err
        assert role in ran.out
        assert privileges(dsn, role)["conversations"] == ROWS

    def test_the_admins_dsn_can_come_from_standard_input(
        self, run, dsn, new_role, monkeypatch
    ):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{dsn}\n"))
        role = new_role()
        ran = run("migrate", "--admin-dsn", "-", *MODEL, "--runtime-role", role)
        assert ran.status == 0, ran.err

    def test_odd_names_are_quoted(self, dsn, server):
        role = 'Odd "role"; DROP TABLE x'
        name = sql.Identifier(role)
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE ROLE {}").format(name))
        try:
            roles.grant(dsn, role)
            assert privileges(dsn, role)["conversations"] == ROWS
        finally:
            with psycopg.connect(dsn, autocommit=True) as admin:
                admin.execute(sql.SQL("DROP OWNED BY {}").format(name))
                admin.execute(sql.SQL("DROP ROLE {}").format(name))


class TestRefusals:
    @pytest.mark.parametrize("role", ["no such role", "public", ""])
    def test_a_role_that_does_not_exist_is_one_line(self, run, dsn, role):
        ran = run("migrate", *MODEL, "--admin-dsn", dsn, "--runtime-role", role)
        assert ran.status == 1
        [line] = ran.err.splitlines()
        assert f"no role {role!r}" in line
        assert "conversations" not in privileges(dsn, "PUBLIC")

    def test_an_admin_who_may_not_create_is_named(
        self, run, new_database, new_role, configure
    ):
        dsn, role = new_database(), new_role()
        with psycopg.connect(dsn) as conn:
            conn.execute("CREATE EXTENSION vector")
        ran = run("migrate", *MODEL, "--admin-dsn", make_conninfo(dsn, user=role))
        assert ran.status == 1
        [line] = ran.err.splitlines()
        assert role in line
        assert "permission denied for schema public" in line

    @pytest.mark.parametrize("how", ["nothing", "everything but the option"])
    def test_an_admin_who_may_not_grant_is_named(self, dsn, new_role, how):
        admin, role = new_role(), new_role()
        if how != "nothing":
            roles.grant(dsn, admin)
        with pytest.raises(SchemaError, match=f"role {admin} .*role {role}"):
            roles.grant(make_conninfo(dsn, user=admin), role)

    def test_a_missing_privilege_is_named_with_its_role(
        self, run, configure, dsn, new_role
    ):
        role = new_role()
        roles.grant(dsn, role)
        revoke = sql.SQL("REVOKE DELETE, UPDATE ON conversations FROM {}")
        with psycopg.connect(dsn) as conn:
            conn.execute(revoke.format(sql.Identifier(role)))
        configure(dsn=make_conninfo(dsn, user=role))
        memory = Memory(store := Store(dsn, pool_size=1), dsn)
        memory.apply(memory.turn("old"))
        store.close()
        ran = run("prune", "--days", "1", "--execute")
        assert ran.status == 1
        [line] = ran.err.splitlines()
        assert f"role {role} lacks UPDATE, DELETE on conversations" in line
        assert "--admin-dsn" in line

    def test_a_schema_that_may_not_be_used_is_not_called_empty(
        self, run, configure, dsn, new_role
    ):
        role = new_role()
        with psycopg.connect(dsn) as conn:
            conn.execute("REVOKE ALL ON SCHEMA public FROM public")
        configure(dsn=make_conninfo(dsn, user=role))
        for words in (["stats"], ["migrate", "--check"]):
            ran = run(*words)
            assert ran.status == 1
            assert f"role {role} lacks USAGE on schema public" in ran.err


def test_the_user_of_a_connection_string_is_found_in_either_form():
    assert roles.user_of("postgresql://hermes:x@db/memory") == "hermes"
    assert roles.user_of("host=db user=hermes") == "hermes"
    assert roles.user_of("host=db") is None
