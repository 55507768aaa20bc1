"""What the real packages of other memories wrote is read as they meant it.

`scripts/fixtures` made the files; each folder's `made.json` says with what.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
from moving_kit import doing
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hermes_pgmemory.models import Subject
from hermes_pgmemory.moving.sources import SOURCES, hexus, hindsight, honcho, mem0
from hermes_pgmemory.moving.values import Aim, Reader, Skipped
from hermes_pgmemory.session import Session
from hermes_pgmemory.store.moved import MovedEdge, MovedEntry, MovedTurn
from hermes_pgmemory.subjects import Veil

FIXTURES = Path(__file__).parent / "fixtures"
MADE = {
    folder.name: json.loads((folder / "made.json").read_text())
    for folder in FIXTURES.iterdir()
}
MEM0 = sorted(name for name in MADE if name.startswith("mem0ai-"))
HEXUS = sorted(name for name in MADE if name.startswith("hexus-"))
HINDSIGHT = FIXTURES / "hindsight-api-slim-1.1.0"
OLD_HINDSIGHT = FIXTURES / "hindsight-api-slim-0.6.2"
HONCHO = FIXTURES / "honcho-3.0.12"
KEY = "ab" * 32
BOB = "5550100124"
"""Who wrote by Telegram to each of them."""


@pytest.fixture
def aim(tmp_path: Path) -> Aim:
    section = {"plugins": {"pgvector": {"turn_min_chars": 5}}}
    (tmp_path / "config.yaml").write_text(json.dumps(section))
    return Aim(home=tmp_path, key=KEY)


@pytest.fixture
def bob(tmp_path: Path) -> Subject:
    """Whose rows are Bob's, for an agent that he writes to."""
    live = {
        "gateway_session_key": f"agent:main:telegram:dm:{BOB}",
        "platform": "telegram",
        "chat_type": "dm",
        "user_id": BOB,
        "chat_id": BOB,
        "hermes_home": str(tmp_path),
    }
    session = Session.begin("s1", live).behind(Veil(bytes.fromhex(KEY), is_final=True))
    subject = session.speaker.subject
    assert subject
    return subject


class Told:
    """What a reader made of files or of a database."""

    def __init__(self, read: Reader, aim: Aim, *paths: Path) -> None:
        found = list(read(paths, aim))
        self.left_out = [one.why for one in found if isinstance(one, Skipped)]
        self.entries = [one for one in found if isinstance(one, MovedEntry)]
        self.turns = [one.write for one in found if isinstance(one, MovedTurn)]
        self.edges = [one.write for one in found if isinstance(one, MovedEdge)]

    @property
    def texts(self) -> set[tuple[str, str]]:
        """Of public entries, with their themes."""
        written = (one.write for one in self.entries)
        return {(one.theme, one.content) for one in written if not one.subject}

    def entry(self, content: str) -> MovedEntry:
        [found] = [one for one in self.entries if one.write.content == content]
        return found

    def whose(self, content: str) -> tuple[str, Subject | None]:
        write = self.entry(content).write
        return write.theme, write.subject


def make_tables(dsn: str, schema: str, folder: str, file: str) -> None:
    """Make the tables of a fixture anew, in a schema of their own."""
    with psycopg.connect(dsn) as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS vector")
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        for table in json.loads((FIXTURES / folder / file).read_text()):
            place = sql.Identifier(schema, table["table"])
            named = [(sql.Identifier(name), kind) for name, kind, _ in table["columns"]]
            columns = [sql.SQL("{} " + kind).format(name) for name, kind in named]
            values = [sql.SQL("%s::" + kind) for _, kind in named]
            conn.execute(
                sql.SQL("CREATE TABLE {} ({})").format(
                    place, sql.SQL(", ").join(columns)
                )
            )
            conn.cursor().executemany(
                sql.SQL("INSERT INTO {} VALUES ({})").format(
                    place, sql.SQL(", ").join(values)
                ),
                table["rows"],
            )


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


class TestHindsight:
    SEEN = "It is known: Alice works at Halden since 2024."
    ALWAYS = frozenset(
        {
            "Alice works at Halden since 2024.",
            "The build takes nine minutes.",
            "Water boils at 100 degrees.",
        }
    )
    WHOLE = ("bank.zip", "old.zip", "list.json")

    @pytest.mark.parametrize("file", WHOLE)
    def test_a_bank(self, aim, bob, file):
        told = Told(hindsight.read, aim, HINDSIGHT / file)
        theme = "hermes-coder" if file.endswith(".zip") else "hermes"
        assert told.texts == {(theme, text) for text in (*self.ALWAYS, self.SEEN)}
        assert told.whose("Bob likes green tea.") == ("whatsapp-dm", bob)
        assert told.whose("The choir meets on Mondays.")[0] == "external-group"
        # What was observed in a chat with Bob and in a group is neither's.
        assert told.left_out == [hindsight.MIXED]
        written = json.dumps([one.write.metadata for one in told.entries])
        assert BOB not in written

    @pytest.mark.parametrize("file", WHOLE)
    def test_facts_are_dated(self, aim, file):
        told = Told(hindsight.read, aim, HINDSIGHT / file)
        at = {one.write.content: one.write.at.isoformat() for one in told.entries}
        assert at["Alice works at Halden since 2024."] == "2025-01-15T10:30:00+00:00"
        assert at["The build takes nine minutes."] == "2025-01-16T06:00:00+00:00"
        archive = Told(hindsight.read, aim, HINDSIGHT / "part.zip")
        timeless = archive.entry("Water boils at 100 degrees.").write.at
        lag = datetime.fromisoformat(at["Water boils at 100 degrees."]) - timeless
        assert abs(lag.total_seconds()) < 60  # when Hindsight took it in, not now

    def test_a_fact_keeps_where_it_came_from(self, aim):
        listed = json.loads((HINDSIGHT / "list.json").read_text())["items"]
        fact = next(one for one in listed if one["context"] == "work")
        told = Told(hindsight.read, aim, HINDSIGHT / "bank.zip")
        note = told.entry(fact["text"]).write.metadata
        assert note["import_id"] == fact["id"]
        assert note["document"] == "session_1"
        assert set(str(note["tags"]).split(", ")) == {"people", "session:s1"}

    def test_a_document_named_after_a_chat_names_nobody(self, aim, tmp_path):
        items = json.loads((HINDSIGHT / "list.json").read_text())["items"]
        named = [{**one, "document_id": f"telegram:{BOB}"} for one in items]
        (tmp_path / "list.json").write_text(json.dumps(named))
        told = Told(hindsight.read, aim, tmp_path / "list.json")
        assert told.texts
        assert BOB not in str([one.write.metadata for one in told.entries])

    def test_facts_without_ids_or_of_odd_types_keep_their_own(self, aim, bob, tmp_path):
        chat = {"platform": "telegram", "chat_type": "dm", "user_id": BOB}
        odd = {"id": [1], "tags": "x", "document_id": {}, "source_memory_ids": {"a": 1}}
        items = [
            {"text": "For all.", "metadata": {}},
            {"text": "For Bob.", "metadata": chat},
            {"text": "Odd.", "metadata": [], **odd},
            {"text": "Seen.", "metadata": {}, "type": "observation", **odd},
        ]
        (tmp_path / "list.json").write_text(json.dumps(items))
        told = Told(hindsight.read, aim, tmp_path / "list.json")
        assert {text for _, text in told.texts} == {"For all.", "Odd."}
        assert told.whose("For Bob.") == ("whatsapp-dm", bob)
        assert told.left_out == [hindsight.MIXED]

    def test_pages_of_its_list_belong_together(self, aim, tmp_path):
        answer = json.loads((HINDSIGHT / "list.json").read_text())
        whole = Told(hindsight.read, aim, HINDSIGHT / "list.json")
        pages = []
        for number, item in enumerate(answer["items"]):
            page = {**answer, "items": [item], "limit": 1, "offset": number}
            pages.append(tmp_path / f"{number}.json")
            pages[-1].write_text(json.dumps(page))
        told = Told(hindsight.read, aim, *pages)
        assert (told.entries, told.left_out) == (whole.entries, whole.left_out)

    def test_what_was_observed_in_one_contacts_facts_is_that_contacts(
        self, aim, bob, tmp_path
    ):
        items = json.loads((HINDSIGHT / "list.json").read_text())["items"]
        [source] = [one["id"] for one in items if one["text"].startswith("Bob likes")]
        for one in items:
            if one["text"].startswith("Bob drinks"):
                one["source_memory_ids"] = [source]
        (tmp_path / "list.json").write_text(json.dumps(items))
        told = Told(hindsight.read, aim, tmp_path / "list.json")
        assert told.whose("Bob drinks tea after the choir.") == ("whatsapp-dm", bob)

    def test_what_recall_finds_and_what_was_invalidated(self, aim):
        told = Told(hindsight.read, aim, HINDSIGHT / "recall.json")
        # It does not tell what an observation was made of.
        assert {text for _, text in told.texts} == self.ALWAYS
        assert set(told.left_out) == {hindsight.MIXED}
        told = Told(hindsight.read, aim, HINDSIGHT / "invalid.json")
        assert (told.entries, told.left_out) == ([], [hindsight.INVALID])

    def test_an_old_list_tells_of_no_chats(self, aim):
        old = OLD_HINDSIGHT / "list.json"
        told = Told(hindsight.read, aim, old)
        assert told.entries == []
        assert set(told.left_out) == {hindsight.UNTOLD}
        named = Told(hindsight.read, replace(aim, theme="Work"), old)
        assert {theme for theme, _ in named.texts} == {"work"}
        assert {text for _, text in named.texts} > self.ALWAYS

    def test_what_recall_tells_of_a_fact_holds_for_the_list(self, aim, bob):
        files = [OLD_HINDSIGHT / name for name in ("list.json", "recall.json")]
        for paths in (files, files[::-1]):
            told = Told(hindsight.read, replace(aim, theme="Work"), *paths)
            assert {text for _, text in told.texts} >= self.ALWAYS
            whose = {
                (one.write.theme, one.write.subject)
                for one in told.entries
                if one.write.content == "Bob likes green tea."
            }
            assert whose == {("whatsapp-dm", bob)}


class TestHoncho:
    MESSAGES = HONCHO / "messages.json"
    CONCLUSIONS = HONCHO / "conclusions.json"

    def test_sessions_become_turns_in_their_order(self, aim):
        told = Told(honcho.read, aim, self.MESSAGES)
        said = [one for one in told.turns if one.session_id == "my-project"]
        assert [(one.theme, one.role, one.content) for one in said] == [
            ("desk", "user", "What does Halden owe?"),
            ("desk", "assistant", "It is 300 euros."),
            ("desk", "user", "What does Halden owe?"),
            ("desk", "assistant", "Still 300 — schön! 🐶"),
        ]
        assert said[1].at.isoformat()[:21] == "2025-01-01T00:00:01.5"

    @pytest.mark.parametrize("file", ["messages.json", "reverse.json"])
    def test_messages_of_one_moment_stay_in_order(self, aim, file):
        told = Told(honcho.read, aim, HONCHO / file)
        at_once = [one for one in told.turns if one.session_id == "at-once"]
        assert [one.content for one in at_once] == [
            "This was said long before.",
            "Which of these came first?",
            "This came second, at the same moment.",
            "This came third and last.",
        ]
        assert sorted(at_once, key=lambda one: one.at) == at_once

    def test_chats_are_their_contacts(self, aim, bob):
        told = Told(honcho.read, aim, self.MESSAGES, self.CONCLUSIONS)
        private = {
            (one.theme, one.subject): one.session_id
            for one in told.turns
            if one.subject
        }
        [group] = [subject for theme, subject in private if theme != "whatsapp-dm"]
        assert set(private) == {("whatsapp-dm", bob), ("external-group", group)}
        assert not any("555010" in session for session in private.values())
        assert told.whose("Likes green tea.") == ("whatsapp-dm", bob)
        # It names no session; but Bob was heard in this chat only.
        assert told.whose("Writes in the evening.") == ("whatsapp-dm", bob)

    def test_conclusions_are_of_the_messages_workspace(self, aim):
        told = Told(honcho.read, aim, self.CONCLUSIONS, self.MESSAGES)
        found = {(theme, content) for theme, content in told.texts}
        assert found == {
            ("desk", "Alice asks twice."),
            ("desk", "Alice is patient."),
            ("desk", "Answers in euros."),
        }
        assert told.entry("Alice asks twice.").write.target == "user"
        assert told.entry("Answers in euros.").write.target == "memory"

    def test_a_session_in_several_files_is_one(self, aim, tmp_path):
        whole = Told(honcho.read, aim, self.MESSAGES)
        pages = []
        for answer in json.loads(self.MESSAGES.read_text()):
            for item in answer["items"]:
                pages.append(tmp_path / f"{len(pages)}.json")
                pages[-1].write_text(json.dumps({**answer, "items": [item]}))
        told = Told(honcho.read, aim, *pages, HONCHO / "context.json")
        assert told.turns == whole.turns

    @pytest.mark.parametrize(
        ("session", "theme"),
        [
            ("agent-main-matrix-dm--room-server-example", "whatsapp-dm"),
            ("agent-my-profile-signal-dm-ann", "whatsapp-dm"),
            ("agent-main-discord-thread-12-34", "external-group"),
            ("agent-main-notes-about-signal", "desk"),
        ],
    )
    def test_the_hosts_name_of_a_session_tells_its_chat(
        self, aim, tmp_path, session, theme
    ):
        answer = json.loads(self.MESSAGES.read_text())[0]
        items = [{**one, "session_id": session} for one in answer["items"]]
        (tmp_path / "m.json").write_text(json.dumps(items))
        told = Told(honcho.read, aim, tmp_path / "m.json")
        assert {one.theme for one in told.turns} == {theme}


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
