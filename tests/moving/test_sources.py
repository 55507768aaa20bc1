"""What people bring along: memory files, sessions, and other memories' data."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hermes_state import SessionDB
from moving_kit import START, WORK, doing
from plugins.memory.holographic import HolographicMemoryProvider

from hermes_pgmemory import capture
from hermes_pgmemory.memory_files import sources
from hermes_pgmemory.models import AddEntry, Target, Theme
from hermes_pgmemory.moving.sources import files, sessions
from hermes_pgmemory.moving.turns import NOISE
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.private_notes import PrivateNotes
from hermes_pgmemory.session import Session
from hermes_pgmemory.subjects import Veil
from hermes_pgmemory.turn_ledger import TurnLedger

SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2
PHONE = "+1 555 0100 123"


def write_file(home: Path, name: str, *entries: str) -> None:
    folder = home / "memories"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes("\n§\n".join(entries).encode())


class TestFiles:
    def test_every_profile_keeps_its_own(self, new, run, tmp_path):
        database, fleet = new(), tmp_path / "fleet"
        write_file(fleet, "MEMORY.md", "Deploys on Fridays.", f"the key {SECRET}")
        write_file(fleet, "USER.md", "Prefers tea.\r\nEarl Grey.")
        write_file(fleet / "profiles" / "Sales", "MEMORY.md", "Halden pays late.", "")
        write_file(fleet / "profiles" / "5550100123", "USER.md", "calls at night")
        (fleet / "profiles" / "Sales" / "memories" / "USER.md").write_bytes(b"\xff\xfe")
        told = doing(run, database, "files", fleet)
        rows = database.entries()
        assert (WORK, "x", "y") not in rows
        assert [row for row in rows if row[0] != "whatsapp-dm"] == [
            ("hermes", "memory", "Deploys on Fridays."),
            ("hermes", "memory", "the key [redacted openai key]"),
            ("hermes", "user", "Prefers tea.\nEarl Grey."),
            ("sales", "memory", "Halden pays late."),
        ]
        assert told["reasons"] == {files.UNREADABLE: 1}
        assert not list(fleet.rglob("home-id"))

    def test_what_an_agent_has_mirrored_is_there(self, new, run):
        database = new()
        write_file(database.home, "MEMORY.md", "Mirrored.", "By hand.", "For Alice.")
        paths = HomePaths(database.home)
        source = sources(paths)[Target.MEMORY]
        PrivateNotes(paths.state).add("For Alice.")
        database.apply(
            AddEntry(
                theme=Theme("hermes"),
                target=Target.MEMORY,
                content="Mirrored.",
                at=START,
                source=source,
            )
        )
        told = doing(run, database, "files")
        assert (told["new"], told["there"]) == (1, 1)
        assert told["reasons"] == {files.PRIVATE: 1}
        [(by_hand, told_of)] = database.query(
            "SELECT files, metadata FROM memory_entries WHERE content = 'By hand.'"
        )
        assert by_hand == [source]
        assert told_of == {"write_origin": "file_import"}

    def test_an_export_as_files_comes_back(self, new, run, tmp_path):
        old, moved, folder = new(), new(), tmp_path / "tree"
        old.fill()
        old.apply(
            AddEntry(
                theme=Theme("hermes"), target=Target.USER, content="a\n\nb", at=START
            )
        )
        assert run(old, "export", "--format", "files", folder).status == 0
        assert (folder / "memories" / "USER.md").read_text() == "a\n\nb"
        doing(run, moved, "files", folder)
        wanted = old.query(
            "SELECT content FROM memory_entries"
            " WHERE subject IS NULL AND retired_at IS NULL AND content NOT LIKE '%§%'"
        )
        found = {row[2] for row in moved.entries()}
        assert {text.strip() for text in wanted if text.isprintable()} <= found
        assert run(old, "export", "--format", "files", folder).status == 2
        assert run(old, "export", "--format", "files", "--private", "x").status == 2


@pytest.fixture
def state_db(tmp_path: Path):
    """The host's own database of sessions, in a home of its own."""
    home = tmp_path / "past"
    home.mkdir()
    with closing(SessionDB(db_path=home / "state.db")) as db:
        yield home, db


def say(db: SessionDB, session: str, *said: tuple[str, object]) -> None:
    for number, (role, content) in enumerate(said):
        at = START.timestamp() + number
        db.append_message(session, role, content, timestamp=at)


class TestSessions:
    def test_past_conversations_become_turns(self, new, run, state_db):
        database = new()
        home, db = state_db
        db.create_session("20260101_030405_abcdef", "cli")
        say(
            db,
            "20260101_030405_abcdef",
            ("system", "You are helpful."),
            ("user", f"Halden owes 300, the key is {SECRET}"),
            ("assistant", "I will look."),
            ("tool", "300"),
            ("assistant", "Halden owes 300 since May."),
            ("user", "ok"),
            (
                "user",
                [{"type": "text", "text": "See this picture"}, {"type": "image_url"}],
            ),
            ("user", "I take this back"),
        )
        db.create_session("cron_1", "cron")
        say(db, "cron_1", ("user", "Run the nightly report"))
        db.create_session("api-0123456789abcdef", "api_server")
        say(db, "api-0123456789abcdef", ("user", "Whose theme is this?"))
        [last] = db._conn.execute(
            "SELECT max(id) FROM messages WHERE content LIKE '%take%'"
        )
        db._conn.execute("UPDATE messages SET active = 0 WHERE id = ?", tuple(last))
        db._conn.commit()
        told = doing(run, database, "sessions", home)
        assert database.turns() == [
            ("hermes", "user", "Halden owes 300, the key is [redacted openai key]"),
            ("hermes", "assistant", "I will look."),
            ("hermes", "assistant", "Halden owes 300 since May."),
            ("hermes", "user", "[1 image] See this picture"),
        ]
        assert told["reasons"] == {
            "the host keeps no memory of cron sessions": 1,
            sessions.NOBODYS: 1,
            NOISE: 1,
        }
        at, note = database.query("SELECT ts, metadata FROM conversations ORDER BY ts")[
            0
        ]
        assert (at - START).total_seconds() == pytest.approx(1, abs=1e-5)
        assert note == {
            "session_id": "20260101_030405_abcdef",
            "platform": "cli",
            "write_origin": "import",
            "import_source": "sessions",
        }
        named = doing(run, database, "sessions", home, "--theme", "Work")
        assert named["themes"]["work"]["turns"]["new"] == 5

    def test_a_compaction_doubles_nothing(self, new, run, state_db):
        database = new()
        home, db = state_db
        db.create_session("s1", "cli")
        say(db, "s1", ("user", "The first question"), ("assistant", "The first answer"))
        kept = db.get_messages_as_conversation("s1")[-1:]
        db.archive_and_compact(
            "s1", [{"role": "user", "content": "So far: one"}, *kept]
        )
        say(db, "s1", ("user", "The second question"))
        doing(run, database, "sessions", home)
        assert sorted(turn[2] for turn in database.turns()) == [
            "So far: one",
            "The first answer",
            "The first question",
            "The second question",
        ]

    def test_what_an_agent_has_kept_of_it_is_there(self, new, run, state_db):
        database = new()
        home, db = state_db
        said = ["Ship it on Friday", "I shall ship it on Friday"]
        private = {
            "gateway_session_key": f"agent:main:telegram:dm:{5550100123}",
            "platform": "telegram",
            "chat_type": "dm",
            "user_id": "5550100123",
            "chat_id": "5550100123",
        }
        for name, known in (("s1", {"platform": "cli"}), ("s2", private)):
            live = {
                **known,
                "agent_identity": "default",
                "agent_workspace": "hermes",
                "hermes_home": str(database.home),
            }
            session = Session.begin(name, live).behind(
                Veil(bytes.fromhex(database.key), is_final=True)
            )
            room = session.room(TurnLedger())
            database.apply(*capture.turn(*said, None, room=room, at=START))
            columns = {k: v for k, v in known.items() if k != "platform"}
            if key := columns.pop("gateway_session_key", None):
                columns["session_key"] = key
            db.create_session(name, known["platform"], **columns)
            say(db, name, ("user", said[0]), ("assistant", said[1]))
            say(db, name, ("user", f"And then? ({name})"))
        told = doing(run, database, "sessions", home)
        assert (told["new"], told["there"]) == (2, 4)
        rows = database.query(
            "SELECT agent_identity, count(DISTINCT session_id),"
            " count(DISTINCT subject), count(*)"
            " FROM conversations GROUP BY 1 ORDER BY 1"
        )
        assert rows == [("hermes", 1, 0, 3), ("whatsapp-dm", 1, 1, 3)]
        everything = json.dumps(database.rows(), default=str)
        assert "5550100123" not in everything

    def test_a_folder_without_one_is_named(self, new, run, tmp_path):
        database = new()
        ran = run(database, "import", "sessions", tmp_path / "nowhere")
        assert (ran.status, "no folder" in ran.err) == (2, True)
        (tmp_path / "state.db").write_text("not SQLite, whatever its name says")
        assert run(database, "import", "sessions", tmp_path).status == 2


def test_facts_of_the_holographic_plugin(new, run, tmp_path):
    database, home = new(), tmp_path / "holo"
    (home / "memories").mkdir(parents=True)
    plugin = HolographicMemoryProvider({"db_path": str(home / "memory_store.db")})
    plugin.initialize("s1")
    plugin.handle_tool_call(
        "fact_store",
        {
            "action": "add",
            "content": "The gateway runs on port 8642",
            "category": "project",
            "tags": "gateway,ports",
        },
    )
    plugin.on_memory_write("add", "user", "Prefers tea.")
    plugin.shutdown()
    database.apply(
        AddEntry(
            theme=Theme("hermes"), target=Target.USER, content="Prefers tea.", at=START
        )
    )
    told = doing(run, database, "holographic", home)
    assert (told["new"], told["there"]) == (1, 1)
    [(at, note)] = database.query(
        "SELECT created_at, metadata FROM memory_entries WHERE target = 'memory'"
    )
    assert abs((datetime.now(UTC) - at).total_seconds()) < 600
    assert note == {
        "write_origin": "import",
        "import_source": "holographic",
        "import_id": "1",
        "category": "project",
        "tags": "gateway,ports",
        "trust": 0.5,
    }
    by_file = run(database, "import", "holographic", home / "memory_store.db", "--json")
    assert by_file.data["there"] == 2


MEM0 = [
    {
        "id": "6c1c6a40-0000-4000-8000-000000000001",
        "memory": "Works at TechCorp",
        "hash": "x",
        "user_id": "hermes-user",
        "agent_id": "Coder",
        "metadata": {"type": "professional"},
        "categories": ["work", "people"],
        "created_at": "2025-03-01T10:00:00.123456-08:00",
        "updated_at": "2025-03-02T10:00:00Z",
    },
    {
        "id": "6c1c6a40-0000-4000-8000-000000000002",
        "memory": f"Reach me at night, key {SECRET}",
        "user_id": PHONE,
        "agent_id": "Coder",
        "created_at": "2025-03-01T10:00:00",
    },
    {"id": "6c1c6a40-0000-4000-8000-000000000003", "memory": "  ", "user_id": "bob"},
]


class TestMem0:
    def test_memories_of_its_api(self, new, run, tmp_path):
        database, file = new(), tmp_path / "mem0.json"
        file.write_text(json.dumps({"count": 3, "results": MEM0}))
        told = doing(run, database, "mem0", file)
        assert told["new"] == 2
        public, private = database.query(
            "SELECT agent_identity, content, subject, created_at, updated_at, metadata"
            " FROM memory_entries ORDER BY agent_identity"
        )
        assert public[:3] == ("coder", "Works at TechCorp", None)
        assert public[3].isoformat() == "2025-03-01T18:00:00.123456+00:00"
        assert public[4].isoformat() == "2025-03-02T10:00:00+00:00"
        assert public[5]["import_id"] == MEM0[0]["id"]
        assert public[5]["categories"] == "work, people"
        assert private[:2] == (
            "whatsapp-dm",
            "Reach me at night, key [redacted openai key]",
        )
        assert len(private[2]) == 32
        assert private[5] == {
            "write_origin": "import",
            "import_source": "mem0",
            "import_id": MEM0[1]["id"],
        }

    def test_a_user_of_a_known_platform_is_the_contact_that_agents_know(
        self, new, run, tmp_path
    ):
        database, file = new(), tmp_path / "mem0.json"
        file.write_text(json.dumps([{"memory": "Likes tea", "user_id": "u77"}]))
        run(database, "import", "mem0", file, "--platform", "Telegram", "--execute")
        live = {
            "gateway_session_key": "agent:main:telegram:dm:u77",
            "platform": "telegram",
            "chat_type": "dm",
            "user_id": "u77",
            "hermes_home": str(database.home),
        }
        session = Session.begin("s1", live).behind(
            Veil(bytes.fromhex(database.key), is_final=True)
        )
        [subject] = database.query("SELECT subject FROM memory_entries")
        assert subject == session.speaker.subject

    def test_a_table_that_is_not_there_is_named(
        self, new, run, new_database, monkeypatch
    ):
        monkeypatch.setenv("THEIRS", new_database())
        ran = run(new(), "import", "mem0", "--from-dsn-env", "THEIRS")
        assert (ran.status, "--table" in ran.err) == (2, True)


def test_documents_that_hold_nothing_are_named(new, run, tmp_path):
    database, file = new(), tmp_path / "x.json"
    for text, why in (("[1, 2", "neither JSON"), ("[]", "no JSON objects")):
        file.write_text(text)
        ran = run(database, "import", "mem0", file)
        assert (ran.status, why in ran.err) == (2, True)
    file.write_text("{}")
    assert run(database, "import", "mem0", file).status == 0
    assert run(database, "import", "mem0").status == 2
    assert run(database, "import", "files", "--from-dsn-env", "X").status == 2
