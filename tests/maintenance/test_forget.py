"""What is forgotten is gone everywhere, stays gone, and nothing of others goes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from time import monotonic

import psycopg
import pytest
from maintenance_kit import START, days_ago

from hermes_pgmemory.codec import encode
from hermes_pgmemory.contacts import Contact
from hermes_pgmemory.journal import Journal, inspect
from hermes_pgmemory.lineage import Lineage
from hermes_pgmemory.models import (
    AgentKind,
    RecordDelegation,
    RemoveEntry,
    ReplaceEntry,
    SeeAgent,
    Subject,
    Target,
    Theme,
)
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.private_notes import PrivateNotes
from hermes_pgmemory.store.forget import READ
from hermes_pgmemory.store.queries import QUERIES
from hermes_pgmemory.subjects import veil_of

DM = Theme("whatsapp-dm")
ANNA, BERT = Subject("a" * 32), Subject("b" * 32)
SECRET = "Anna breeds rare orchids in the greenhouse behind her house."


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "pgvector" / "journal"


@pytest.fixture
def journal(folder):
    """The journal of an agent that lives while the command runs."""
    journal = Journal.claim(folder, quota_bytes=1 << 20)
    yield journal
    journal.close()


@pytest.fixture
def killed_at(memory, tmp_path):
    """Forget Anna in a process that is killed while it waits for somebody's lock."""

    def killed_at(lock, parameters=None):
        code = "import sys; from hermes_pgmemory.cli import main; sys.exit(main())"
        words = ["forget", "--subject", ANNA, "--execute", "--home", str(tmp_path)]
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        with psycopg.connect(memory.dsn) as conn:
            conn.execute(lock, parameters)
            child = subprocess.Popen(
                [sys.executable, "-c", code, *words], env=os.environ
            )
            deadline = monotonic() + 60
            while memory.query(waits) == [0]:
                assert monotonic() < deadline
                assert child.poll() is None
            child.kill()
            child.wait()

    return killed_at


def life(memory, who, **owner):
    """Return one of each kind of write, as one owner makes them."""
    note = {"target": Target.MEMORY, "at": START, **owner}
    return [
        memory.entry(f"{who} grows tomatoes on the southern balcony", **owner),
        ReplaceEntry(
            old_text=f"{who} grows tomatoes",
            content=f"{who} grows peppers on the southern balcony",
            **note,
        ),
        memory.entry(f"{who} has a parrot by the name of Captain Flint", **owner),
        RemoveEntry(old_text=f"{who} has a parrot", **note),
        memory.turn(f"{who} asked about the train to Lisbon on Sunday", **owner),
        RecordDelegation(
            parent_session_id="s1",
            child_session_id=f"child of {who}",
            task=f"{who} wants to know how long a parrot lives",
            at=START,
            **owner,
        ),
    ]


def everything(memory):
    """Return all that the database holds, as text, by table."""
    tables = memory.query(
        "SELECT relname::text FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = 'public'::regnamespace"
    )
    with psycopg.connect(memory.dsn) as conn:
        return {
            name: [row for (row,) in conn.execute(f"SELECT t::text FROM {name} t")]
            for name in tables
        }


def traces(memory, folder, words):
    """Return the tables and files that still hold one of *words*."""
    found = [
        name
        for name, rows in everything(memory).items()
        if any(word in row for row in rows for word in words)
    ]
    files = [path for path in folder.parent.rglob("*") if path.is_file()]
    return found + [
        path.name
        for path in files
        if any(word.encode() in path.read_bytes() for word in words)
    ]


def of(memory, subject):
    return [
        row for rows in everything(memory).values() for row in rows if subject in row
    ]


def test_a_contact_is_gone_from_tables_and_journals_and_the_other_is_untouched(
    memory, run, journal, folder
):
    memory.apply(*life(memory, "Anna", theme=DM, subject=ANNA))
    memory.apply(*life(memory, "Bert", theme=DM, subject=BERT))
    memory.apply(memory.entry(SECRET, theme=DM, subject=ANNA))
    said = memory.turn("Anna is on her way to the harbour", theme=DM, subject=ANNA)
    other = memory.turn("Bert is on his way to the harbour", theme=DM, subject=BERT)
    journal.append([encode(said), encode(other), encode(said)])
    journal.acknowledge(journal.pending(1))
    journal.append([encode(memory.entry(SECRET * 90, theme=DM, subject=ANNA))])
    journal.bury(journal.pending(9)[-1], "refused")
    before = of(memory, BERT)
    assert len(before) >= 5

    rehearsed = run("forget", "--subject", ANNA, "--json").data
    assert rehearsed["places"] == {
        "journal, waiting": 1,
        "journal, refused": 1,
        "lineage": 0,
        "memory_journal_positions": 0,
        "memory_entries": 2,
        "memory_entry_history": 2,
        "conversations": 1,
        "memory_agent_edges": 1,
        "memory_agents": 0,
        "memory_maintenance_log": 0,
    }
    assert "Anna" in "".join(of(memory, ANNA))

    ran = run("forget", "--subject", ANNA, "--execute", "--json")
    assert ran.status == 0, ran.err
    assert ran.data["places"] == {**rehearsed["places"], "private-notes": 0}
    proof = ran.data["proof"]
    assert (proof["clean"], proof["found"], proof["since"]) == (True, {}, 0)
    assert proof["texts"] == 8
    assert traces(memory, folder, ["Anna", "orchids"]) == []
    assert of(memory, BERT) == before
    assert [record.text for record in journal.pending(9)] == [encode(other)]
    assert (inspect(folder).dead_letters, journal.depth) == (0, 1)
    [(pattern, details)] = memory.query(
        "SELECT identity_pattern, details FROM memory_maintenance_log"
    )
    assert pattern == "(a contact)"
    assert ANNA not in str(details)
    assert (
        memory.query("SELECT subject FROM memory_forgotten WHERE subject <> %s", ANNA)
        == []
    )


def test_a_theme_is_gone_with_its_name(memory, run, journal, folder):
    memory.apply(
        *life(memory, "Anna", theme=Theme("orchids")),
        SeeAgent(theme=Theme("orchids"), kind=AgentKind.THEME, at=START),
        memory.entry("kept", at=days_ago(3)),
        RecordDelegation(
            theme=Theme("work"),
            parent_session_id="w",
            child_session_id="o",
            task="of others",
            at=START,
        ),
    )
    memory.query("UPDATE memory_agent_edges SET child_identity = 'orchids'")
    assert run("prune", "--days", "9", "--theme", "orchids", "--execute").status == 0
    journal.append([encode(memory.entry("Anna again", theme=Theme("orchids")))])
    ran = run("forget", "--theme", "orchids", "--execute", "--json")
    assert ran.status == 0, ran.err
    assert ran.data["places"]["memory_journal_positions"] == 1
    assert ran.data["places"]["memory_maintenance_log"] == 1
    assert ran.data["proof"]["since"] == 0
    rows = everything(memory)
    assert len(rows.pop("memory_forgotten")) == 1
    assert "orchids" not in str(rows)
    assert traces(memory, folder, ["Anna"]) == []
    assert memory.contents() == ["kept"]
    assert memory.query("SELECT task FROM memory_agent_edges") == ["of others"]


class TestComingBack:
    def test_what_a_writer_holds_already_stays_away_and_the_rest_is_stored(
        self, memory, run, store
    ):
        memory.apply(memory.entry(SECRET, theme=DM, subject=ANNA))
        batch = memory.accept(
            memory.turn("Anna said this before", theme=DM, subject=ANNA),
            memory.turn("Bert said this before", theme=DM, subject=BERT),
            memory.turn(
                "Anna says this later",
                theme=DM,
                subject=ANNA,
                at=datetime.now(UTC) + timedelta(hours=1),
            ),
        )
        assert run("forget", "--subject", ANNA, "--execute").status == 0
        assert store.apply(batch, {}) == 2
        assert memory.turns(DM) == ["Anna says this later", "Bert said this before"]
        again = run("forget", "--subject", ANNA, "--execute", "--json")
        assert again.data["deleted"] == 1

    def test_beside_a_living_writer_nothing_from_before_is_left(self, memory, run):
        with memory.busy(DM) as written:
            ran = run("forget", "--theme", DM, "--execute", "--json")
        assert ran.status == 0, ran.err
        [at] = memory.query("SELECT forgotten_at FROM memory_forgotten")
        old = "SELECT count(*) FROM conversations WHERE ts <= %s"
        assert memory.query(old, at) == [0]
        assert memory.query("SELECT min(created_at) FROM memory_entries")[
            0
        ] is None or (
            memory.query("SELECT min(created_at) > %s FROM memory_entries", at)
            == [True]
        )
        assert written

    def test_killed_in_the_middle_it_goes_on_when_run_again(
        self, memory, run, folder, killed_at
    ):
        memory.apply(*life(memory, "Anna", theme=DM, subject=ANNA))
        killed_at("LOCK TABLE memory_agents IN SHARE MODE")
        assert "Anna" in str(everything(memory))
        ran = run("forget", "--subject", ANNA, "--execute", "--json")
        assert (ran.status, ran.data["deleted"]) == (0, 5)
        assert traces(memory, folder, ["Anna"]) == []

    def test_killed_behind_the_rows_it_leaves_no_hash_of_a_note(
        self, memory, run, tmp_path, killed_at
    ):
        """What was written in private is known by its text, which is gone by then."""
        memory.apply(
            memory.entry(SECRET, theme=DM, subject=ANNA),
            memory.entry("Anna was here", theme=Theme("zoo"), subject=ANNA),
        )
        notes = HomePaths(tmp_path).state
        notes.mkdir(exist_ok=True)
        PrivateNotes(notes).add(SECRET)
        killed_at(QUERIES["lock_theme"], {"theme": "zoo"})
        assert SECRET not in str(everything(memory)["memory_entries"])
        assert run("forget", "--subject", ANNA, "--execute").status == 0
        assert PrivateNotes(notes).without((SECRET,)) == (SECRET,)


class TestWhatIsLeft:
    def test_the_hosts_own_file_is_not_ours_to_edit_but_is_told(
        self, memory, run, tmp_path
    ):
        memory.apply(memory.entry(SECRET, theme=DM, subject=ANNA))
        (tmp_path / "memories").mkdir()
        (tmp_path / "memories" / "USER.md").write_text(f"{SECRET}\n§\nAnother")
        ran = run("forget", "--subject", ANNA, "--execute", "--json")
        assert ran.status == 1
        assert "USER.md" in ran.err
        assert ran.data["proof"]["memory_files"] == {"USER.md": 1}

    def test_the_same_words_of_somebody_else_stay_and_are_told(self, memory, run):
        memory.apply(
            memory.entry(SECRET, theme=DM, subject=ANNA),
            memory.entry(f"I heard this: {SECRET} Is it true?"),
            memory.entry(f"{SECRET[:40]}, or so", theme=Theme("other")),
        )
        ran = run("forget", "--subject", ANNA, "--execute", "--json")
        assert ran.status == 0
        assert ran.data["proof"]["elsewhere"] == {"memory_entries": 1}
        assert "rows of others" in ran.err
        assert len(memory.contents()) == 1

    def test_every_text_column_is_searched(self, memory):
        columns = memory.query(
            "SELECT relname::text, attname::text FROM pg_attribute"
            " JOIN pg_class ON pg_class.oid = attrelid"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            " AND attnum > 0 AND atttypid IN"
            " ('text'::regtype, 'jsonb'::regtype, 'text[]'::regtype)"
        )
        searched = {("memory_settings", "value"), ("memory_forgotten", "subject")}
        with psycopg.connect(memory.dsn) as conn:
            for table, query in READ.items():
                asked = {"theme": "", "after": 0, "limit": 1}
                names = conn.execute(query, asked).description
                searched |= {(table, column.name) for column in names}
        assert set(columns) <= searched


class TestWhom:
    def test_the_contact_is_asked_for_and_hashed_as_the_hooks_do(
        self, memory, run, monkeypatch
    ):
        [key] = memory.query(
            "SELECT value #>> '{}' FROM memory_settings WHERE key = 'subject_key'"
        )
        contact = Contact("signal", "dm", "user", "+15550100301")
        hashed = contact.subject(bytes.fromhex(key))
        memory.apply(memory.entry(SECRET, theme=DM, subject=hashed))
        monkeypatch.setenv("WHO", "+1 (555) 010-0301")
        ran = run("forget", "--contact-env", "WHO", "--json")
        assert [one["subject"] for one in ran.data["contacts"]] == [hashed]
        assert ran.data["places"]["memory_entries"] == 1
        assert "5550100301" not in ran.out + ran.err
        monkeypatch.setattr("sys.stdin", io.StringIO())
        assert run("forget", "--contact").status == 2
        assert run("forget", "--contact", "+1 555 0109 999").status == 2
        for deleted in (1, 0):  # again, as after a run that was killed at its end
            ran = run("forget", "--contact-env", "WHO", "--execute", "--json")
            assert (ran.status, ran.data["deleted"]) == (0, deleted)
        platform = ("--platform", "telegram")
        assert run("forget", "--contact-env", "WHO", *platform).status == 2

    def test_what_waits_sealed_is_the_contacts_too(
        self, memory, run, journal, folder, tmp_path, monkeypatch
    ):
        """A home that has never met its database, see `subjects`."""
        contact = Contact("signal", "dm", "user", "+15550100301")
        sealed = veil_of(HomePaths(tmp_path)).subject(contact)
        journal.append([encode(memory.entry(SECRET, theme=DM, subject=sealed))])
        monkeypatch.setenv("WHO", "+15550100301")
        ran = run("forget", "--contact-env", "WHO", "--execute", "--json")
        assert ran.data["places"]["journal, waiting"] == 1
        assert journal.pending(9) == []
        assert traces(memory, folder, ["orchids"]) == []

    def test_another_home_notes_no_session_of_theirs_once_it_ran_there_too(
        self, memory, run, tmp_path, folder
    ):
        """Its rows are gone by then, with all that told which session was whose."""
        lineage = Lineage(tmp_path / "pgvector")
        (tmp_path / "pgvector").mkdir()
        sealed = veil_of(HomePaths(tmp_path)).session_id("anna's chat")
        for new, theme, subject in (
            ("chat-anna", DM, ANNA),
            (sealed, DM, ANNA),
            ("chat-bert", DM, BERT),
            ("20261201_120000_ab12cd", "orchids", None),
        ):
            old = f"before {new}"
            lineage.note(new, old, START, theme=Theme(theme), subject=subject)
        counted = run("forget", "--subject", ANNA, "--json")
        assert counted.data["places"]["lineage"] == 2
        assert len(lineage.texts()) == 4
        ran = run("forget", "--subject", ANNA, "--execute", "--json")
        assert (ran.status, ran.data["places"]["lineage"]) == (0, 2)
        assert traces(memory, folder, [ANNA, "chat-anna", sealed]) == [
            "memory_forgotten"
        ]
        run("forget", "--theme", "orchids", "--execute")
        assert [*lineage.of("chat-bert")] == ["before chat-bert"]
        assert len(lineage.texts()) == 1

    def test_the_note_of_several_lines_is_no_private_note_any_more(
        self, memory, run, tmp_path
    ):
        notes = PrivateNotes(tmp_path / "pgvector")
        notes_file = tmp_path / "pgvector" / "private-notes"
        notes_file.parent.mkdir()
        notes.add(f"{SECRET}\n§\nand a second part of it")
        memory.apply(
            memory.entry(
                f"{SECRET}\n§\nand a second part of it", theme=DM, subject=ANNA
            )
        )
        run("forget", "--subject", ANNA, "--execute")
        assert set(notes_file.read_text().split()) == {"0" * 64}

    def test_somebody_must_be_named(self, run):
        both = ("--theme", "a", "--subject", ANNA)
        for words in ((), ("--theme", " "), ("--subject", "abc"), both):
            assert run("forget", *words, "--execute").status == 2
