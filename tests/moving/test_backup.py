"""Our tables into a file and back, by pg_dump and pg_restore."""

from __future__ import annotations

import os
import subprocess

import psycopg
import pytest
from moving_kit import Database
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_pgmemory.store import dump


def everything(database: Database) -> list[object]:
    return [
        database.rows(),
        database.query("SELECT * FROM memory_settings ORDER BY key"),
        database.query("SELECT * FROM memory_journal_positions ORDER BY epoch"),
        database.query("SELECT obj_description('memory_settings'::regclass)"),
    ]


def tables_of(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as conn:
        found = conn.execute("SELECT relname FROM pg_class").fetchall()
    return [name for (name,) in found]


def test_it_is_tried_and_comes_back_whole(new, run, new_database, tmp_path):
    old = new()
    old.fill()
    old.query("CREATE TABLE not_ours (id integer)")
    file = tmp_path / "memory.dump"
    of_a_killed_run = tmp_path / "memory.dump.0123abcd.part"
    of_a_killed_run.write_text("all memories")
    done = run(old, "backup", "--verify", file, "--json")
    assert done.status == 0, done.err
    assert f"removed {of_a_killed_run}" in done.err
    assert done.data["verified"]
    assert done.data["tables"]["conversations"] == len(old.rows()["conversations"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.glob("*.part")) == []
    assert old.query(
        "SELECT count(*) FROM pg_database WHERE datname LIKE %s", f"{dump.SCRATCH}%"
    ) == [0]

    empty = new_database()
    words = ("restore", "--admin-dsn", empty, file)
    assert "add --execute" in run(old, *words).out
    assert "memory_entries" not in tables_of(empty)
    assert run(old, *words, "--execute").status == 0
    restored = Database(empty, tmp_path)
    try:
        assert everything(restored) == everything(old)
        assert "not_ours" not in tables_of(empty)
        assert restored.store.verify(timeout_s=10).subject_key == old.key
        vector, question = [1.0, 0.0, 0.0], "wörter tea delimiter"
        assert restored.answers(question, vector) == old.answers(question, vector)
    finally:
        restored.store.close()
        old.query("DROP TABLE not_ours")


def test_a_copy_that_a_killed_verification_left_goes_and_no_other(server, dsn):
    stray = f"{dump.SCRATCH}0123456789abcdef"
    with psycopg.connect(server, autocommit=True) as admin, dump.scratch(dsn) as living:
        admin.execute(f'CREATE DATABASE "{stray}" TEMPLATE template0')
        # By way of another database: other memories may lie on the same server.
        with dump.scratch(server) as ours:
            names = [stray, *(conninfo_to_dict(of)["dbname"] for of in (living, ours))]
            left = admin.execute(
                "SELECT datname FROM pg_database WHERE datname = ANY (%s)", [names]
            ).fetchall()
        admin.execute(f'DROP DATABASE IF EXISTS "{stray}"')
    assert {name for (name,) in left} == set(names[1:])


def test_memories_are_not_overwritten_without_a_word(new, run, tmp_path):
    old, other = new(), new()
    old.fill()
    file = tmp_path / "memory.dump"
    run(old, "backup", file)
    # A migrated database that holds nothing is as good as an empty one.
    assert run(other, "restore", file, "--execute").status == 0
    assert everything(other) == everything(old)
    other.query("DELETE FROM conversations WHERE role = 'user'")
    refused = run(other, "restore", file, "--execute")
    assert (refused.status, "--replace" in refused.err) == (2, True)
    assert run(other, "restore", file, "--execute", "--replace", "x").status == 2
    name = psycopg.conninfo.conninfo_to_dict(other.dsn)["dbname"]
    replaced = run(other, "restore", file, "--execute", "--replace", name)
    assert replaced.status == 0, replaced.err
    assert everything(other) == everything(old)
    # Of another schema, as an older package's, they are worth as much.
    other.query("DROP VIEW v_agent_memory")
    assert run(other, "restore", file, "--execute").status == 2
    replaced = run(other, "restore", file, "--execute", "--replace", name)
    assert replaced.status == 0, replaced.err


def test_what_is_no_backup_is_refused(new, run, servers, tmp_path):
    database = new()
    for name, text in (("empty", ""), ("other", "not a dump")):
        (tmp_path / name).write_text(text)
        assert run(database, "restore", tmp_path / name).status == 2
    assert run(database, "restore", tmp_path / "missing").status == 2
    database.query("CREATE TABLE stranger (id integer)")
    dumped = [servers.bin / "pg_dump", "--format=custom", "--table=stranger"]
    subprocess.run(
        [*dumped, f"--file={tmp_path / 'stranger'}", database.dsn], check=True
    )
    database.query("DROP TABLE stranger")
    ran = run(database, "restore", tmp_path / "stranger")
    assert (ran.status, "no backup of" in ran.err) == (2, True)


def test_a_move_of_vectors_is_not_cut_in_half(new, run, tmp_path):
    database = new()
    database.query(
        "CREATE FUNCTION moving() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN RETURN NEW; END'"
    )
    database.query(
        "CREATE TRIGGER moving BEFORE INSERT ON conversations"
        " FOR EACH ROW EXECUTE FUNCTION moving()"
    )
    ran = run(database, "backup", tmp_path / "memory.dump")
    database.query("DROP FUNCTION moving CASCADE")
    assert (ran.status, "vectors are on the move" in ran.err) == (1, True)
    assert list(tmp_path.glob("memory*")) == []


def test_who_may_not_make_databases_is_told_before_anything_is_restored(
    new, run, new_role, tmp_path
):
    database, role = new(), new_role()
    for name in ("TABLES IN SCHEMA public", "SEQUENCES IN SCHEMA public"):
        database.query(f"GRANT SELECT ON ALL {name} TO {role}")
    dsn = make_conninfo(database.dsn, user=role)
    ran = run(database, "backup", "--verify", "--admin-dsn", dsn, tmp_path / "x.dump")
    database.query(f"DROP OWNED BY {role}")
    assert (ran.status, "CREATEDB" in ran.err) == (1, True)
    assert (tmp_path / "x.dump").exists()


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:s%40cret@db.example:6432/mem?sslmode=require&keepalives=1",
        (
            "host=db.example port=6432 user=me password=s@cret dbname=mem"
            " sslmode=require keepalives=1"
        ),
    ],
)
def test_the_password_is_on_no_command_line(dsn, monkeypatch):
    monkeypatch.setenv("PGUSER", "another")
    monkeypatch.setenv("OPENAI_API_KEY", "nobody's business")
    told, rest = dump.environment(dsn)
    assert rest == "application_name=hermes-pgmemory keepalives=1"
    assert (
        told
        | {
            "PGHOST": "db.example",
            "PGPORT": "6432",
            "PGUSER": "me",
            "PGPASSWORD": "s@cret",
            "PGDATABASE": "mem",
            "PGSSLMODE": "require",
            "PATH": os.environ["PATH"],
        }
        == told
    )
    assert "OPENAI_API_KEY" not in told
