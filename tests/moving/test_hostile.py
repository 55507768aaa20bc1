"""What a hostile file, or an unlucky moment, must not do."""

from __future__ import annotations

import json
import zipfile
from contextlib import closing
from uuid import UUID

import psycopg
import pytest
from hermes_state import SessionDB
from moving_kit import START, WORK, turn

from hermes_pgmemory.errors import BadRequest, DatabaseBusy
from hermes_pgmemory.models import AddEntry, Target, Theme
from hermes_pgmemory.moving import going_out, lines
from hermes_pgmemory.moving.header import Header
from hermes_pgmemory.moving.sources import jsonl
from hermes_pgmemory.moving.values import EMPTY, moment
from hermes_pgmemory.store import Store, arriving
from hermes_pgmemory.store.forget import Mine

HEAD = {
    "format": "hermes-pgmemory",
    "version": 1,
    "exported_at": "2026-01-01T00:00:00Z",
    "private": False,
    "subject_key": "x",
}
ENTRY = {
    "row": "entry",
    "theme": "work",
    "target": "memory",
    "content": "an entry",
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
    "metadata": {},
}
TURN = {
    "row": "turn",
    "theme": "work",
    "session_id": "s",
    "role": "user",
    "content": "a turn",
    "ordinal": 1,
    "ts": "2026-01-01T00:00:00Z",
    "embed": True,
    "metadata": {},
}
TIMELESS = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
DAMAGED = [
    "[" * 100_000,
    '{"row":"end","rows":Infinity}',
    json.dumps(TURN | {"ordinal": float("inf")}),
    json.dumps(TURN | {"parent_session_id": {"a": 1}}),
    json.dumps(TURN | {"parent_session_id": 5}),
    json.dumps(ENTRY | {"source": {"a": 1}}),
    json.dumps(ENTRY | {"metadata": [["a", "b"]]}),
    json.dumps(ENTRY | {"files": "abc"}),
    *(json.dumps(ENTRY | {"created_at": at}) for at in TIMELESS),
    *(json.dumps(ENTRY | {"retired_at": at}) for at in TIMELESS),
    *(json.dumps(TURN | {"ts": at}) for at in TIMELESS),
]
DEEP = "[" * 900 + "]" * 900
DAMAGED.append(f'{json.dumps(ENTRY)[:-2]}"a":{DEEP}}}}}')
HEADS = [
    "[" * 100_000,
    json.dumps(HEAD | {"version": float("inf")}),
    json.dumps(HEAD | {"exported_at": TIMELESS[0]}),
    '{"format":"hermes-pgmemory","version":1}',
]


@pytest.mark.parametrize("line", DAMAGED, ids=map(str, range(len(DAMAGED))))
def test_a_line_that_we_never_wrote_is_a_damaged_one(line):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        lines.decode(line)


@pytest.mark.parametrize("line", HEADS, ids=map(str, range(len(HEADS))))
def test_a_first_line_that_we_never_wrote_is_told_of(line):
    with pytest.raises(BadRequest):
        Header.of(line)


def test_a_time_that_a_database_cannot_tell_again_is_none():
    assert [moment(at) for at in (*TIMELESS, -62135596800)] == [None] * 3
    assert moment("1970-01-01T01:00:00+01:00") == moment(0)


def test_hostile_lines_keep_no_other_row_out(new, run, tmp_path):
    database = new()
    file = tmp_path / "hostile.jsonl"
    told = [json.dumps(HEAD), *DAMAGED, json.dumps(TURN)]
    file.write_text("\n".join([*told, f'{{"row":"end","rows":{len(told) - 1}}}\n']))
    ran = run(database, "import", "jsonl", file, "--execute", "--json")
    assert ran.data["reasons"] == {jsonl.DAMAGED: len(DAMAGED)}
    assert [row[2] for row in database.turns()] == ["a turn"]
    assert run(database, "export", tmp_path / "out").status == 0


def test_a_line_without_an_end_costs_no_memory_and_no_other_row(
    new, run, tmp_path, monkeypatch
):
    monkeypatch.setattr(jsonl, "MAX_LINE_CHARS", 400)
    endless = json.dumps(TURN | {"content": "x" * 900})
    file = tmp_path / "endless.jsonl"
    end = '{"row":"end","rows":2}\n'
    file.write_text("\n".join([json.dumps(HEAD), endless, json.dumps(TURN), end]))
    ran = run(new(), "import", "jsonl", file, "--json")
    assert (ran.data["new"], ran.data["reasons"]) == (1, {jsonl.DAMAGED: 1})
    file.write_text("x" * 900)
    assert run(new(), "import", "jsonl", file).status == 2


@pytest.mark.parametrize("levels", [900, 100_000])
@pytest.mark.parametrize("source", ["mem0", "honcho", "hindsight"])
def test_a_document_that_nests_without_measure_is_named_and_nothing_is_kept(
    new, run, tmp_path, source, levels
):
    one = {"memory": "a fact", "text": "a fact", "observed_id": "u", "content": "x"}
    good = json.dumps(one)
    deep = f'{good[:-1]}, "x": {"[" * levels}{"]" * levels}}}'
    whole, rows, alone = (tmp_path / name for name in ("a.json", "b.jsonl", "c.json"))
    whole.write_text(good)
    rows.write_text(f"{good}\n\n{deep}\n{good}")
    alone.write_text(f"\n{deep}")
    database = new()
    for file, line in ((rows, 3), (alone, 2)):
        ran = run(database, "import", source, whole, file, "--execute")
        assert ran.status == 2
        assert ran.err.splitlines()[-1].endswith(f"levels deep in line {line}")
        assert str(file) in ran.err
    assert database.entries() == []


def test_an_archive_whose_document_nests_is_named_and_nothing_is_kept(
    new, run, tmp_path
):
    file = tmp_path / "bank.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("manifest.json", '{"source_bank_id": "x"}')
        archive.writestr("documents/0.json", '{"facts": [{"text": "a fact"}]}')
        archive.writestr("documents/1.json", f'{{"facts":\n{DEEP}}}')
    database = new()
    ran = run(database, "import", "hindsight", file, "--execute")
    assert (ran.status, database.entries()) == (2, [])
    assert f"{file}: documents/1.json" in ran.err
    assert "in line 2" in ran.err


def test_a_row_of_others_that_nests_says_nothing_and_hides_no_other(
    new, run, new_database, monkeypatch
):
    database, theirs = new(), new_database()
    with psycopg.connect(theirs) as conn:
        conn.execute("CREATE TABLE mem0 (id uuid PRIMARY KEY, payload jsonb)")
        for number, payload in enumerate((DEEP, '{"data": "a fact"}')):
            conn.execute(
                "INSERT INTO mem0 VALUES (%s, %s)", (UUID(int=number), payload)
            )
    monkeypatch.setenv("THEIRS", theirs)
    ran = run(
        database, "import", "mem0", "--from-dsn-env", "THEIRS", "--execute", "--json"
    )
    assert ran.status == 0, ran.err
    assert (ran.data["new"], ran.data["reasons"]) == (1, {EMPTY: 1})


def test_a_message_of_the_host_that_nests_hides_no_other(new, run, tmp_path):
    with closing(SessionDB(db_path=tmp_path / "state.db")) as db:
        db.create_session("20260101_030405_abcdef", "cli")
        for content in ("what nests", "What does Halden owe?"):
            db.append_message("20260101_030405_abcdef", "user", content)
        db._conn.execute(
            "UPDATE messages SET content = ? WHERE content = 'what nests'",
            (f"\0json:{DEEP * 40}",),
        )
        db._conn.commit()
    database = new()
    assert run(database, "import", "sessions", tmp_path, "--execute").status == 0
    assert [row[2] for row in database.turns()] == ["What does Halden owe?"]


def test_forget_waits_for_an_import_under_way_and_deletes_what_it_brought(new):
    database = new()
    forgetting = Store(database.dsn, pool_size=1).forgetting
    mine = Mine(theme=WORK, subjects=None)
    # What `Moving.keep` does, held open at its end.
    with database.store.moving._database.transaction(30) as conn:
        arriving.keep(conn, [lines.decode(json.dumps(TURN))], runs={}, model=None)
        with pytest.raises(DatabaseBusy):
            forgetting.note([mine], timeout_s=0.3)
    forgetting.note([mine], timeout_s=10)
    assert database.store.moving.forgotten(
        [lines.decode(json.dumps(TURN))], timeout_s=10
    ) == {0}
    forgetting._database.close()


def test_vectors_of_the_model_that_took_over_meanwhile_stay_out(new):
    """An importer goes by the first line: it would take them for the old model's."""
    database = new()
    database.apply(
        turn("before the other model"),
        turn("after it took over", theme=Theme("z")),
        vectors={0: [1, 0, 0], 1: [0, 1, 0]},
    )
    store, told = database.store, list[dict]()

    def write(line: str) -> None:
        told.append(json.loads(line))
        if len(told) == 2:
            database.query(
                "WITH new AS (INSERT INTO memory_models (name, dimension)"
                " VALUES ('new', 3) RETURNING id), active AS (UPDATE memory_settings"
                " SET value = to_jsonb(new.id) FROM new WHERE key = 'active_model_id')"
                " UPDATE conversations SET model_id = new.id, embedding = '[9,9,9]'"
                " FROM new"
            )

    facts = store.verify(timeout_s=10)
    try:
        going_out.lines_of(
            store,
            facts,
            themes=[],
            private=False,
            vectors=True,
            write=write,
            advance=lambda _: None,
        )
    finally:
        database.query("TRUNCATE conversations")
        database.query(
            "UPDATE memory_settings SET value = (SELECT to_jsonb(id) FROM memory_models"
            " WHERE name = 'test') WHERE key = 'active_model_id'"
        )
        database.query("DELETE FROM memory_models WHERE name = 'new'")
    assert told[0]["model"] == "test"
    assert ["embedding" in row for row in told[1:3]] == [True, False]


def test_a_theme_whose_name_no_folder_can_have_keeps_no_other_one_in(
    new, run, tmp_path
):
    database = new()
    long = ["\u6f22" * 128, "\u6f22" * 127 + "x", "." + "\u6f22" * 100]
    database.apply(
        *(
            AddEntry(theme=Theme(one), target=Target.MEMORY, content=one, at=START)
            for one in (*long, "z", "..")
        )
    )
    folder = tmp_path / "out"
    assert run(database, "export", "--format", "files", folder).status == 0
    files = [*folder.glob("profiles/*/memories/MEMORY.md")]
    assert {file.read_text() for file in files} == {*long, "z", ".."}


def test_an_export_that_failed_can_be_run_again_with_its_key_file(new, run, tmp_path):
    database = new()
    key = tmp_path / "key"
    words = ("export", "--private", "--key-file", key)
    (tmp_path / "folder").mkdir()
    assert run(database, *words, tmp_path / "folder").status == 1
    assert run(database, *words, tmp_path / "file").status == 0
    assert key.read_text() == f"{database.key}\n"
    key.write_text("another's")
    assert run(database, *words, tmp_path / "file").status == 2
    assert key.read_text() == "another's"
