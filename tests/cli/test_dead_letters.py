"""What the database refused: shown, and tried again once the cause is mended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cli_kit import Run

from hermes_pgmemory.codec import decode, encode
from hermes_pgmemory.journal import DeadLetters, Journal
from hermes_pgmemory.models import Accepted, AddEntry, Subject, Target, Theme
from hermes_pgmemory.store import Store

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
FOREVER = "a NUL \x00 is never stored"


def note(content: str, **more: Any) -> str:
    given = {"theme": Theme("sales"), "target": Target.MEMORY, "at": NOW} | more
    return encode(AddEntry(content=content, **given))


@pytest.fixture
def journal(home: Path) -> Iterator[Journal]:
    """The journal of an agent that lives while the command runs."""
    journal = Journal.claim(home / "pgvector" / "journal", quota_bytes=1 << 20)
    yield journal
    journal.close()


@pytest.fixture
def dsn(dsn_of: Callable[[int], str], configure: Callable[..., None]) -> str:
    dsn = dsn_of(384)
    configure(dsn=dsn, embed_on_write=False)
    return dsn


def refuse(journal: Journal, *texts: str, reason: str = "refused") -> None:
    journal.append(texts)
    for record in journal.pending(len(texts)):
        journal.bury(record, reason)


def contents(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT content FROM memory_entries ORDER BY id")
        return [content for (content,) in rows]


class TestList:
    def test_tells_where_when_what_and_why(self, run: Run, journal: Journal):
        refuse(journal, note("first"), reason="too long (DataError)")
        refuse(journal, "not a record")
        ran = run("replay", "--dead", "--list", "--json")
        assert ran.status == 0
        assert ran.data["dead_letters"] == 2
        first, second = ran.data["letters"]
        at = datetime.fromisoformat(first.pop("at"))
        assert abs(datetime.now(UTC) - at).total_seconds() < 60
        assert first == {
            "letter": "1/1",
            "kind": "add",
            "theme": "sales",
            "reason": "too long (DataError)",
            "snippet": "first",
        }
        assert (second["letter"], second["kind"]) == ("1/2", "unreadable")
        assert "too long (DataError)" in run("replay", "--dead", "--list").out

    def test_shows_no_whole_text_no_secret_and_nothing_private(
        self, run: Run, journal: Journal
    ):
        secret = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5q" * 2
        own = note("my birthday wish", subject=Subject("0" * 32))
        refuse(journal, note(f"{'x' * 50} {secret}"), note("long " * 99), own)
        for form in ([], ["--json"]):
            out = run("replay", "--dead", "--list", *form).out
            assert secret[:12] not in out
            assert "long " * 12 in out
            assert "long " * 13 not in out
            assert "birthday" not in out

    def test_changes_nothing_and_needs_no_database(self, run: Run, journal: Journal):
        refuse(journal, note("first"))
        out = run("replay", "--dead", "--list").out
        assert run("replay", "--dead", "--list").out == out

    def test_is_wrong_usage_by_itself(self, run: Run):
        ran = run("replay", "--list")
        assert ran.status == 2
        assert "--dead" in ran.err

    def test_of_an_untouched_home_is_empty(self, run: Run, home: Path):
        assert run("replay", "--dead", "--list").out == "no dead letters\n"
        assert list(home.iterdir()) == []

    def test_a_damaged_journal_hides_no_other(
        self, run: Run, journal: Journal, home: Path
    ):
        refuse(journal, note("first"))
        (home / "pgvector" / "journal" / "0000000000-x.sqlite3").write_text("no")
        ran = run("replay", "--dead", "--list", "--json")
        assert [letter["snippet"] for letter in ran.data["letters"]] == ["first"]


class TestStoringWhatWaits:
    @pytest.fixture
    def left(self, home: Path) -> Journal:
        """The journal of an agent that has ended."""
        journal = Journal.claim(home / "pgvector" / "journal", quota_bytes=1 << 20)
        journal.append([note("one"), note(FOREVER), note("two")])
        journal.close()
        return journal

    def test_what_is_refused_is_not_counted_as_stored(
        self, run: Run, left: Journal, dsn: str
    ):
        ran = run("replay", "--json")
        assert ran.status == 1
        told = {key: ran.data[key] for key in ("stored", "refused", "pending")}
        assert told == {"stored": 2, "refused": 1, "pending": 0}
        assert "replay --dead --list" in ran.err
        assert contents(dsn) == ["one", "two"]
        assert run("replay").status == 0

    def test_a_schema_that_is_not_there_is_for_an_operator_to_mend(
        self,
        run: Run,
        left: Journal,
        new_database: Callable[..., str],
        configure: Callable[..., None],
    ):
        configure(dsn=new_database(), embed_on_write=False)
        ran = run("replay", "--json")
        assert (ran.status, ran.data["stored"], ran.data["pending"]) == (1, 0, 3)
        assert "hermes-pgvector" in ran.err


class TestTryingAgain:
    def test_stores_them_in_order_with_their_own_time_beside_a_live_agent(
        self, run: Run, journal: Journal, dsn: str
    ):
        refuse(journal, *map(note, ["one", "two", "three"]))
        journal.append([note("not ours to store")])
        ran = run("replay", "--dead", "--json")
        assert ran.status == 0, ran.err
        assert (ran.data["revived"], ran.data["dead_letters"]) == (3, 0)
        assert contents(dsn) == ["one", "two", "three"]
        with psycopg.connect(dsn) as connection:
            query = "SELECT DISTINCT created_at FROM memory_entries"
            assert connection.execute(query).fetchall() == [(NOW,)]
        assert [decode(r.text).content for r in journal.pending(9)] == [
            "not ours to store"
        ]

    def test_what_is_refused_again_stays_alone_with_its_newest_reason(
        self, run: Run, journal: Journal, dsn: str
    ):
        refuse(journal, note("one"), note(FOREVER), "not a record", note("two"))
        ran = run("replay", "--dead", "--json")
        assert ran.status == 1
        assert (ran.data["revived"], ran.data["dead_letters"]) == (2, 2)
        refused, unreadable = ran.data["letters"]
        assert refused["letter"] == "1/2"
        assert "NUL" in refused["reason"]
        assert "not readable" in unreadable["reason"]
        assert contents(dsn) == ["one", "two"]
        ran = run("replay", "--dead", "--json")
        assert (ran.status, ran.data["revived"], ran.data["dead_letters"]) == (1, 0, 2)

    def test_a_letter_that_was_refused_before_its_neighbours_is_not_taken_for_stored(
        self, run: Run, journal: Journal, dsn: str
    ):
        """The places of later letters of the same process say nothing about it."""
        refuse(journal, note(FOREVER), note("two"))
        assert run("replay", "--dead").status == 1
        [record] = DeadLetters(journal._slot).pending(9)
        mended = Accepted(
            epoch=record.epoch, position=record.position, write=decode(note("one"))
        )
        with closing(Store(dsn)) as store:
            assert store.apply([mended], {}) == 1

    def test_one_that_was_stored_by_a_command_that_died_is_not_stored_twice(
        self, run: Run, journal: Journal, dsn: str
    ):
        refuse(journal, note("one"))
        [record] = DeadLetters(journal._slot).pending(9)
        place = {"epoch": record.epoch, "position": record.position}
        with closing(Store(dsn)) as store:
            store.apply([Accepted(write=decode(record.text), **place)], {})
        with psycopg.connect(dsn) as connection:
            connection.execute("DELETE FROM memory_entries")
        assert run("replay", "--dead").status == 0
        assert contents(dsn) == []

    def test_two_commands_at_once_store_each_once(
        self, child: Run, journal: Journal, dsn: str, home: Path
    ):
        refuse(journal, *(note(f"note {number}") for number in range(200)))
        code = "import sys; from hermes_pgmemory.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "replay", "--dead", "--home", str(home)]
        both = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in "12"
        ]
        assert [one.wait() for one in both if one.communicate()] == [0, 0]
        assert contents(dsn) == [f"note {number}" for number in range(200)]

    def test_what_a_dead_process_left_comes_first(self, run: Run, home: Path, dsn: str):
        left = Journal.claim(home / "pgvector" / "journal", quota_bytes=1 << 20)
        refuse(left, note("refused"))
        left.append([note("waiting")])
        left.close()
        ran = run("replay", "--dead", "--json")
        assert ran.status == 0
        assert (ran.data["stored"], ran.data["revived"]) == (2, 1)
        assert contents(dsn) == ["waiting", "refused"]
        assert run("status", "--json").data["parts"]["journal"]["state"] == "ok"

    def test_while_the_database_is_away_they_stay(
        self, run: Run, journal: Journal, configure: Callable[..., None]
    ):
        configure(dsn="host=127.0.0.1 port=1 user=u password=hunter2")
        refuse(journal, note("one"), reason="as it was")
        ran = run("replay", "--dead", "--json")
        assert ran.status == 3
        assert [letter["reason"] for letter in ran.data["letters"]] == ["as it was"]
        assert "hunter2" not in ran.out + ran.err

    def test_with_none_there_is_nothing_to_do(self, run: Run, home: Path):
        assert run("replay", "--dead").status == 0
        assert list(home.iterdir()) == []


def test_status_names_the_command_that_shows_them(run: Run, journal: Journal):
    refuse(journal, note("one"))
    part = run("status", "--json").data["parts"]["journal"]
    assert "replay --dead --list" in part["detail"]
