"""What the real packages of mem0 and hexus wrote is read as they meant it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import datetime

import pytest
from moving_kit import doing
from peers_kit import (
    FIXTURES,
    HEXUS,
    HINDSIGHT,
    HONCHO,
    MADE,
    MEM0,
    Told,
    make_tables,
)
from psycopg.conninfo import make_conninfo

from hermes_pgmemory.moving.sources import SOURCES, hexus, mem0


def test_the_documentation_names_what_the_fixtures_were_made_with():
    for made in MADE.values():
        [source] = [one for one in SOURCES if made["package"].startswith(one.name)]
        assert made["version"] in source.checked


class TestMem0:
    ALWAYS = frozenset(
        {
            ("coder", "Works at TechCorp"),
            ("coder", "Prefers vim over emacs"),
            ("coder", "Is moving to Lisbon"),
            ("coder", "Has a dog called Bello"),
            ("builder", "The build takes nine minutes"),
            ("hermes", "Only this run knows it"),
            ("hermes", "Lives in Graz"),
        }
    )
    FILES = sorted(
        file.relative_to(FIXTURES).as_posix() for file in FIXTURES.glob("mem0*/*.jsonl")
    )

    @pytest.mark.parametrize("file", FILES)
    def test_what_get_all_returned(self, aim, bob, file):
        told = Told(mem0.read, aim, FIXTURES / file)
        assert not told.left_out
        more = {text for _, text in told.texts - self.ALWAYS}
        assert told.texts >= self.ALWAYS
        assert more <= {
            "My dog is called Bello",
            "Bello is a fine name — schön! 🐶",
            "Has a dog called Bello",  # 0.1.10 had its model tell it of the messages
            "Has a pass",
        }
        assert told.whose("Likes green tea") == ("whatsapp-dm", bob)
        theme, subject = told.whose("Calls at night")
        assert theme == "whatsapp-dm"
        assert subject not in (None, bob)

    @pytest.mark.parametrize("folder", MEM0)
    def test_memories_keep_their_times(self, aim, folder):
        added, changed = json.loads((FIXTURES / folder / "history.json").read_text())
        told = Told(mem0.read, aim, FIXTURES / folder / "pgvector.jsonl")
        entry = told.entry("Lives in Graz")
        assert added["new_memory"] == "Lives in Vienna"
        assert entry.write.at == datetime.fromisoformat(added["created_at"])
        assert entry.updated_at == datetime.fromisoformat(changed["updated_at"])

    def test_tables_hold_what_get_all_returns(self, aim, new_database):
        dsn = new_database()
        for folder in MEM0:
            schema = folder.replace(".", "_")
            make_tables(dsn, schema, folder, "table.json")
            table = replace(aim, dsn=dsn, table=f"{schema}.mem0")
            told = Told(mem0.read, table)
            listed = Told(mem0.read, aim, FIXTURES / folder / "pgvector.jsonl")
            assert sorted(told.entries, key=str) == sorted(listed.entries, key=str)
            expired = [mem0.EXPIRED] if folder == "mem0ai-2.2.1" else []
            assert told.left_out == expired


@pytest.mark.parametrize("folder", HEXUS)
def test_tables_that_the_store_of_hexus_filled(aim, new_database, folder):
    dsn = new_database()
    make_tables(dsn, "kept", folder, "tables.json")
    own = make_conninfo(dsn, options="-c search_path=kept,public")
    told = Told(hexus.read, replace(aim, dsn=own))
    long = ("Halden wants invoices on paper. " * 40).strip()
    assert told.texts == {
        ("hermes", "Deploys on Fridays."),
        ("hermes", "The build takes nine minutes."),
        ("hermes", "Prefers tea."),
        ("hermes", "Lives in Graz."),
        ("sales", "See https://halden.example/prices for prices."),
        ("sales", long),
    }
    night = told.whose("Calls at night.")
    assert night[0] == "whatsapp-dm"
    spoken = {(one.theme, one.subject, one.content) for one in told.turns}
    assert {one[2] for one in spoken if one[:2] == night} == {
        "I like tea, and I said so.",
        "[delegation] Find a tea shop\n[result] (none)",
    }
    assert ("hermes", None, "Halden owes 300 — since May. 🐶") in spoken
    assert [(one.child_session_id, one.task) for one in told.edges] == [
        ("s9", "Look up Halden"),
        ("s8", "Find a tea shop"),
    ]
    for content in ("Prefers tea.", "Lives in Graz."):  # said again; corrected
        entry = told.entry(content)
        assert entry.updated_at > entry.write.at


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (("mem0", FIXTURES / "mem0ai-2.2.1" / "pgvector.jsonl"), (12, 0)),
        (("mem0", "--from-dsn-env", "THEIRS", "--table", "kept.mem0"), (12, 1)),
        (("hindsight", HINDSIGHT / "bank.zip"), (6, 1)),
        (("honcho", HONCHO / "messages.json", HONCHO / "conclusions.json"), (18, 0)),
    ],
)
def test_the_command_keeps_what_readers_find(
    new, run, new_database, monkeypatch, words, counts
):
    database = new()
    if "THEIRS" in words:
        monkeypatch.setenv("THEIRS", new_database())
        make_tables(os.environ["THEIRS"], "kept", "mem0ai-2.2.1", "table.json")
    told = doing(run, database, *words)
    assert (told["new"], sum(told["reasons"].values())) == counts
    assert "555010" not in json.dumps(database.rows(), default=str)
