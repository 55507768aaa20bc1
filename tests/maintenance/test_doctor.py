"""`doctor`, with everything well, and with one half of the world down at a time."""

from __future__ import annotations

import json

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermes_pgmemory.cli import _doctor
from hermes_pgmemory.config import parse
from hermes_pgmemory.paths import HomePaths

NAMES = [name for name, _ in _doctor.CHECKS]
HERE = {"door", "provider", "host"}
"""Not set up in these tests; `tests/cli` does that."""


@pytest.fixture
def doctor(run, configure, dsn, endpoint):
    endpoint.models = {"test": 3}

    def doctor(**settings):
        given = {"dsn": dsn, "embed_url": endpoint.url, "embed_model": "test"}
        configure(**given | settings)
        ran = run("doctor", "--json")
        assert len(ran.err.splitlines()) == 0, ran.err
        checks = ran.data["checks"]
        assert list(checks) == NAMES
        for name, check in checks.items():
            assert check["detail"], name
            assert check["fix"] or check["level"] in {"ok", "unknown"}, name
        return ran.status, checks

    return doctor


def levels(checks, *names):
    return [checks[name]["level"] for name in names]


def test_all_that_is_tried_is_well(doctor, memory):
    memory.apply(memory.turn("the ship leaves at nine"), vectors={0: [1, 0, 0]})
    _, checks = doctor()
    bad = {name for name in NAMES if checks[name]["level"] not in {"ok", "note"}}
    # This endpoint's vectors mean nothing, and the tests' server is not durable.
    assert bad - HERE - {"meaning", "server settings"} == set()
    assert "power failure" in checks["server settings"]["detail"]
    assert checks["embedder"]["facts"]["dimension"] == 3
    assert checks["batches"]["facts"]["batch"] >= 64
    assert set(checks["recall"]["facts"]) == {"embed_s", "connect_s", "sql_s", "fuse_s"}
    assert abs(checks["clock"]["facts"]["skew_s"]) < 2
    assert memory.query("SELECT count(*) FROM conversations") == [1]


def test_without_a_database_the_embedder_is_still_examined(doctor):
    status, checks = doctor(dsn="host=127.0.0.1 port=1 connect_timeout=1")
    assert status == 1  # the door is not installed here
    assert levels(checks, "database") == ["unavailable"]
    rest = ("schema", "role", "pgvector", "clock", "recall", "model")
    assert set(levels(checks, *rest)) == {"unknown"}
    assert levels(checks, "embedder", "batches") == ["ok", "ok"]


def test_without_an_embedder_the_database_is_still_examined(doctor):
    _, checks = doctor(embed_url="http://127.0.0.1:1")
    assert levels(checks, "embedder") == ["unavailable"]
    assert set(levels(checks, "batches", "meaning", "model", "recall")) == {"unknown"}
    assert set(levels(checks, "database", "schema", "role", "clock")) == {"ok"}


def test_with_nothing_set_up_it_says_where_to_begin(run, configure):
    configure()
    ran = run("doctor", "--json")
    assert ran.status == 1
    assert "hermes-pgvector setup" in ran.data["checks"]["database"]["detail"]


def test_settings_that_cannot_be_read(run, tmp_path):
    (tmp_path / "config.yaml").write_text("plugins: [")
    ran = run("doctor", "--json")
    assert ran.status == 1
    assert ran.data["checks"]["settings"]["level"] == "wrong"
    assert ran.data["checks"]["database"]["level"] == "unknown"


def test_an_unknown_key_is_named(doctor):
    _, checks = doctor(prefetch_limt=3)
    assert checks["settings"]["level"] == "wrong"
    assert "prefetch_limit" in checks["settings"]["detail"]


def test_another_model_names_the_way_over(doctor, endpoint):
    endpoint.models["other"] = 5
    _, checks = doctor(embed_model="other")
    assert checks["model"]["level"] == "wrong"
    assert "hermes-pgvector reembed" in checks["model"]["fix"]


def test_files_that_others_may_read(doctor, tmp_path):
    state = HomePaths(tmp_path).state
    state.mkdir(mode=0o700)
    (state / "key").touch(mode=0o644)
    (state / "key").chmod(0o644)
    _, checks = doctor()
    assert checks["permissions"]["level"] == "wrong"
    assert checks["permissions"]["facts"]["paths"] == [str(state / "key")]
    (state / "key").chmod(0o600)
    _, checks = doctor()
    assert checks["permissions"]["level"] == "ok"


def test_a_role_that_lacks_something(doctor, dsn, new_role):
    role = new_role()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    _, checks = doctor(dsn=make_conninfo(dsn, user=role))
    assert checks["role"]["level"] == "wrong"
    assert "INSERT" in checks["role"]["detail"]
    assert f"--runtime-role {role}" in checks["role"]["fix"]


def test_a_model_whose_answers_are_no_nearer(doctor, endpoint):
    endpoint.models = {}  # now every text has the same vector
    _, checks = doctor()
    assert checks["meaning"]["level"] == "wrong"
    assert "prefixes" in checks["meaning"]["fix"]


def test_a_read_only_server_is_told(doctor, dsn):
    _, checks = doctor(dsn=f"{dsn} options='-c default_transaction_read_only=on'")
    assert "read-only" in checks["server settings"]["detail"]


def test_a_quota_beyond_the_disk(doctor):
    most = parse({"journal_quota_mb": 1_000_000}).checked().journal_quota_mb
    _, checks = doctor(journal_quota_mb=most)
    facts = checks["disk"]["facts"]
    assert facts["quota_bytes"] == most << 20
    roomy = facts["free_bytes"] > facts["quota_bytes"] + (1 << 30)
    assert checks["disk"]["level"] == ("ok" if roomy else "wrong")


def test_people_get_one_line_for_each_check(run, configure, dsn, endpoint):
    endpoint.models = {"test": 3}
    configure(dsn=dsn, embed_url=endpoint.url, embed_model="test")
    lines = run("doctor").out.splitlines()
    assert len(lines) == len(NAMES) + 2
    assert json.dumps(NAMES[0])[1:-1] in lines[1]
