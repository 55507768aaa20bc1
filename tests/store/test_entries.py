from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from uuid import uuid4

import psycopg
import pytest

from hermes_pgmemory.models import Accepted, Subject, Target, Theme
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.queries import QUERIES

ALICE = Subject("a" * 32)
WAITING = """
    SELECT wait_event FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


class TestAdd:
    def test_keeps_the_time_of_the_event(self, memory):
        add = memory.add("likes tea")
        memory.apply(add)
        times = memory.query("SELECT created_at, updated_at FROM memory_entries")
        assert times == [(add.at, add.at)]

    def test_gives_an_entry_of_no_file_to_the_file_that_holds_it(self, memory):
        memory.apply(memory.add("likes tea"), memory.add("likes tea", source="file-2"))
        assert memory.query("SELECT source FROM memory_entries") == ["file-2"]

    def test_leaves_known_content_alone(self, memory):
        first = memory.add("likes tea", source="file-1")
        memory.apply(first, memory.add("likes tea", source="file-2"))
        rows = memory.query("SELECT source, updated_at FROM memory_entries")
        assert rows == [("file-1", first.at)]

    def test_notes_every_file_that_holds_the_entry(self, memory):
        memory.apply(*(memory.add("x", source=f) for f in ("f1", "f2", "f1", None)))
        memory.query("UPDATE memory_entries SET missing_from = '{f1,f2}'")
        memory.apply(memory.add("x", source="f2"))
        rows = memory.query("SELECT files, missing_from FROM memory_entries")
        assert rows == [(["f1", "f2"], ["f1"])]

    def test_keeps_the_same_content_of_two_owners_apart(self, memory):
        memory.apply(
            memory.add("likes tea"),
            memory.add("likes tea", target=Target.USER),
            memory.add("likes tea", subject=ALICE),
            memory.add("likes tea", theme=Theme("home")),
        )
        assert memory.contents() == ["likes tea"] * 4

    def test_fills_a_missing_vector(self, memory):
        first = memory.add("likes tea")
        memory.apply(first)
        memory.apply(memory.add("likes tea"), vectors={0: [1, 0, 0]})
        assert memory.query(
            "SELECT embedding::text, name, updated_at FROM memory_entries"
            " JOIN memory_models ON model_id = memory_models.id"
        ) == [("[1,0,0]", "test", first.at)]

    def test_keeps_the_vector_it_has(self, memory):
        memory.apply(memory.add("likes tea"), vectors={0: [1, 0, 0]})
        memory.apply(memory.add("likes tea"), vectors={0: [0, 1, 0]})
        memory.apply(memory.add("likes tea"))
        assert memory.query("SELECT embedding::text FROM memory_entries") == ["[1,0,0]"]

    def test_brings_a_retired_row_back(self, memory):
        first = memory.add("likes tea", source="file-1")
        memory.apply(first, vectors={0: [1, 0, 0]})
        memory.query("UPDATE memory_entries SET retired_at = now()")
        again = memory.add("likes tea", source="file-2")
        memory.apply(again)
        assert memory.query(
            "SELECT retired_at, source, updated_at, embedding::text FROM memory_entries"
        ) == [(None, "file-2", again.at, "[1,0,0]")]

    def test_stores_metadata_and_provenance(self, memory):
        memory.apply(memory.add("x", metadata={"platform": "cli", "n": 1, "ok": True}))
        assert memory.query("SELECT metadata FROM memory_entries") == [
            {"platform": "cli", "n": 1, "ok": True}
        ]


class TestReplace:
    def test_leaves_the_new_content_to_the_file_that_has_it(self, memory):
        memory.apply(*(memory.add("old", source=f) for f in ("f1", "f2")))
        memory.query("UPDATE memory_entries SET missing_from = '{f2}'")
        memory.apply(memory.replace("old", "new", source="f1"))
        rows = memory.query("SELECT files, missing_from FROM memory_entries")
        assert rows == [(["f1"], [])]

    def test_gives_the_entry_new_content_and_keeps_its_birthday(self, memory):
        add = memory.add("editor: vim", metadata={"n": 1})
        replace = memory.replace("vim", "editor: nano", metadata={"n": 2})
        memory.apply(add, replace, vectors={0: [1, 0, 0], 1: [0, 1, 0]})
        assert memory.query(
            "SELECT content, created_at, updated_at, embedding::text, metadata,"
            " tsv::text, content_hash = sha256(convert_to(content, 'UTF8'))"
            " FROM memory_entries"
        ) == [
            (
                "editor: nano",
                add.at,
                replace.at,
                "[0,1,0]",
                {"n": 2},
                "'editor':1 'nano':2",
                True,
            )
        ]

    def test_drops_the_vector_of_the_old_content(self, memory):
        memory.apply(memory.add("old"), vectors={0: [1, 0, 0]})
        memory.apply(memory.replace("old", "new"))
        rows = memory.query("SELECT embedding IS NULL, model_id FROM memory_entries")
        assert rows == [(True, None)]

    def test_matches_the_whole_text_where_the_host_tells_it(self, memory):
        memory.apply(memory.add("tea"), memory.add("tea and cake"))
        memory.apply(memory.replace("tea", "coffee", previous="tea"))
        assert memory.contents() == ["coffee", "tea and cake"]

    def test_ignores_a_substring_where_the_whole_text_is_told(self, memory):
        memory.apply(memory.add("tea and cake"))
        memory.apply(memory.replace("tea", "coffee", previous="tea"))
        assert memory.contents() == ["tea and cake", "coffee"]

    @pytest.mark.parametrize("old", ["15% YoY", "C:\\tmp_x", "a_b", "%", "_", "\\"])
    def test_takes_wildcards_literally(self, memory, old):
        decoys = ["15 of 100 YoY", "C:/tmp-x", "axb", "nothing special"]
        memory.apply(*map(memory.add, [*decoys, f"the {old} one"]))
        memory.apply(memory.replace(old, "replaced"))
        assert memory.contents() == [*decoys, "replaced"]

    def test_minds_the_case(self, memory):
        memory.apply(memory.add("TEA"), memory.replace("tea", "coffee"))
        assert memory.contents() == ["TEA", "coffee"]

    def test_prefers_the_entry_from_the_same_file(self, memory):
        memory.apply(
            memory.add("tea at home", source="file-1"),
            memory.add("tea at work", source="file-2"),
            memory.replace("tea", "coffee", source="file-1"),
        )
        assert memory.contents() == ["coffee", "tea at work"]

    def test_prefers_the_entry_touched_last_within_a_file(self, memory):
        memory.apply(
            memory.add("tea, first"),
            memory.add("tea, second"),
            memory.replace("tea, first", "tea, again"),
            memory.replace("tea", "coffee"),
        )
        assert memory.contents() == ["coffee", "tea, second"]

    def test_adds_the_content_where_nothing_matches(self, memory):
        memory.apply(memory.replace("never seen", "new"))
        assert memory.contents() == ["new"]

    @pytest.mark.parametrize("blank", ["", " ", "\n\t "])
    def test_adds_the_content_where_nothing_is_asked_for(self, memory, blank):
        memory.apply(memory.add("two  words \n\t "), memory.replace(blank, "new"))
        assert memory.contents() == ["two  words \n\t ", "new"]

    def test_merges_with_an_entry_that_has_the_content_already(self, memory):
        memory.apply(memory.add("old"), memory.add("new", source="file-2"))
        memory.apply(memory.replace("old", "new"), vectors={0: [1, 0, 0]})
        assert memory.query(
            "SELECT content, source, embedding::text FROM memory_entries"
        ) == [("new", "file-2", "[1,0,0]")]

    def test_merges_with_a_retired_entry_and_brings_it_back(self, memory):
        memory.apply(memory.add("old"), memory.add("new"))
        memory.query(
            "UPDATE memory_entries SET retired_at = now() WHERE content = 'new'"
        )
        memory.apply(memory.replace("old", "new"))
        assert memory.query("SELECT content, retired_at FROM memory_entries") == [
            ("new", None)
        ]

    def test_by_the_same_content_only_renews_it(self, memory):
        add, replace = memory.add("same"), memory.replace("same", "same")
        memory.apply(add, replace, vectors={1: [1, 0, 0]})
        assert memory.query(
            "SELECT content, created_at, updated_at, embedding::text"
            " FROM memory_entries"
        ) == [("same", add.at, replace.at, "[1,0,0]")]

    def test_does_not_find_retired_entries(self, memory):
        memory.apply(memory.add("old tea"))
        memory.query("UPDATE memory_entries SET retired_at = now()")
        memory.apply(memory.replace("tea", "coffee"))
        assert memory.contents() == ["old tea", "coffee"]

    def test_of_a_section_leaves_what_the_host_wrote(self, memory):
        before = "Section A\nSection B\nSection C"
        memory.apply(memory.add(before))
        memory.apply(memory.replace("Section B", "new B"))
        assert memory.contents() == ["new B"]


class TestRemove:
    def test_removes_the_matching_entry_alone(self, memory):
        memory.apply(memory.add("likes dark mode"), memory.add("likes tea"))
        memory.apply(memory.remove("dark mode"))
        assert memory.contents() == ["likes tea"]

    @pytest.mark.parametrize("blank", ["", " ", "\n"])
    def test_removes_nothing_where_nothing_is_asked_for(self, memory, blank):
        memory.apply(memory.add("a b"), memory.add("c\nd"), memory.remove(blank))
        assert memory.contents() == ["a b", "c\nd"]

    def test_removes_nothing_where_nothing_matches(self, memory):
        memory.apply(memory.add("likes tea"), memory.remove("coffee"))
        assert memory.contents() == ["likes tea"]

    def test_removes_one_of_several_that_match(self, memory):
        memory.apply(
            memory.add("tea at home", source="file-1"),
            memory.add("tea at work", source="file-2"),
            memory.add("tea at last", source="file-2"),
        )
        memory.apply(memory.remove("tea", source="file-1"))
        assert memory.contents() == ["tea at work", "tea at last"]

    def test_takes_wildcards_literally(self, memory):
        memory.apply(memory.add("abc"), memory.add("50% off"), memory.remove("%"))
        assert memory.contents() == ["abc"]

    def test_matches_the_whole_text_where_the_host_tells_it(self, memory):
        memory.apply(memory.add("tea and cake"), memory.add("tea"))
        memory.apply(memory.remove("tea", previous="tea"))
        assert memory.contents() == ["tea and cake"]

    @pytest.mark.parametrize(
        "other",
        [{"theme": Theme("home")}, {"target": Target.USER}, {"subject": ALICE}],
        ids=str,
    )
    def test_stays_with_its_owner(self, memory, other):
        memory.apply(memory.add("tea", **other), memory.remove("tea"))
        assert memory.contents() == ["tea"]
        memory.apply(memory.remove("tea", **other))
        assert memory.contents() == []


class TestSharedByTwoFiles:
    """An entry that both homes' files hold, and one of the first home's alone."""

    ROWS = "SELECT content, files, missing_from FROM memory_entries ORDER BY id"

    @pytest.fixture(autouse=True)
    def rows(self, memory):
        memory.apply(
            *(memory.add("deploy on Friday", source=file) for file in ("f1", "f2")),
            memory.add("deploy docs on Monday", source="f1"),
        )

    def test_a_substring_means_what_the_own_file_holds(self, memory):
        memory.apply(memory.remove("deploy", source="f2"))
        assert memory.query(self.ROWS) == [
            ("deploy on Friday", ["f1", "f2"], ["f2"]),
            ("deploy docs on Monday", ["f1"], []),
        ]

    def test_the_last_one_to_remove_it_removes_the_row(self, memory):
        memory.apply(*(memory.remove("Friday", source=file) for file in ("f2", "f1")))
        assert memory.contents() == ["deploy docs on Monday"]

    def test_a_replacement_leaves_the_other_file_what_it_has(self, memory):
        memory.apply(memory.replace("deploy", "ship on Friday", source="f2"))
        assert memory.query(self.ROWS) == [
            ("deploy on Friday", ["f1", "f2"], ["f2"]),
            ("deploy docs on Monday", ["f1"], []),
            ("ship on Friday", ["f2"], []),
        ]

    def test_a_replacement_by_a_known_entry_does_so_too(self, memory):
        memory.apply(memory.replace("Friday", "deploy docs on Monday", source="f2"))
        assert memory.query(self.ROWS) == [
            ("deploy on Friday", ["f1", "f2"], ["f2"]),
            ("deploy docs on Monday", ["f1", "f2"], []),
        ]

    def test_a_replacement_by_itself_changes_nobodys_files(self, memory):
        memory.apply(memory.replace("Friday", "deploy on Friday", source="f2"))
        assert memory.query(self.ROWS)[0] == ("deploy on Friday", ["f1", "f2"], [])

    def test_a_file_that_never_held_it_takes_nothing(self, memory):
        memory.apply(memory.remove("Friday", source="f3"))
        assert memory.query(self.ROWS)[0] == ("deploy on Friday", ["f1", "f2"], [])


class TestOrder:
    def test_three_effects_of_one_batch_happen_in_order(self, memory):
        memory.apply(memory.add("A"), memory.add("C"))
        batch = memory.accept(
            memory.remove("A"), memory.add("B"), memory.replace("C", "D")
        )
        memory.store.apply(batch, {})
        assert memory.contents() == ["D", "B"]
        memory.store.apply(batch, {})
        assert memory.contents() == ["D", "B"]

    def test_an_entry_may_live_and_die_within_a_batch(self, memory):
        memory.apply(
            memory.add("one"),
            memory.replace("one", "two"),
            memory.remove("two"),
            memory.add("one"),
        )
        assert memory.contents() == ["one"]


class TestConcurrency:
    def test_several_writers_may_replace_entries_by_the_same(self, memory, dsn):
        olds = [f"old {n}" for n in range(12)]
        memory.apply(*map(memory.add, olds))
        writes = [memory.replace(old, "new", previous=old) for old in olds]
        batches = [
            [Accepted(epoch=str(uuid4()), position=1, write=write)] for write in writes
        ]
        with closing(Store(dsn)) as other, ThreadPoolExecutor(6) as pool:
            stores = [memory.store, other] * 6
            done = pool.map(
                lambda store, batch: store.apply(batch, {}), stores, batches
            )
            assert list(done) == [1] * 12
        assert memory.contents() == ["new"]

    def test_a_writer_waits_for_another_of_its_theme(self, memory, dsn, eventually):
        with psycopg.connect(dsn) as first, ThreadPoolExecutor(1) as pool:
            first.execute(QUERIES["lock_theme"], {"theme": "work"})
            second = pool.submit(memory.apply, memory.add("x"))
            eventually(lambda: "advisory" in memory.query(WAITING))
            first.commit()
            assert second.result(10) == 1

    def test_a_writer_survives_a_collision(self, memory, dsn, eventually):
        # As under a distributed database, where that queue is not everybody's.
        memory.apply(memory.add("old"))
        with psycopg.connect(dsn) as first, ThreadPoolExecutor(1) as pool:
            first.execute(
                "INSERT INTO memory_entries"
                " (agent_identity, target, content, content_hash, tsv)"
                " VALUES ('work', 'memory', 'new', sha256('new'), '')"
            )
            second = pool.submit(memory.apply, memory.replace("old", "new"))
            eventually(lambda: "transactionid" in memory.query(WAITING))
            first.commit()
            assert second.result(10) == 1
        assert memory.contents() == ["new"]
