from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_pgmemory.errors import UnstorableWrite
from hermes_pgmemory.models import (
    Accepted,
    AddEntry,
    AddTurn,
    AgentKind,
    RecordDelegation,
    RemoveEntry,
    ReplaceEntry,
    Role,
    SeeAgent,
    Subject,
    Target,
    Theme,
)
from hermes_pgmemory.store import Store

START = datetime(2026, 1, 1, tzinfo=UTC)
EVERYTHING = """
SELECT 'entry', agent_identity, target, content, content_hash::text, embedding::text,
       model_id::text, subject, source, created_at::text, updated_at::text,
       retired_at::text, metadata::text, tsv::text
  FROM (SELECT * FROM memory_entries ORDER BY id) AS entries
UNION ALL
SELECT 'turn', agent_identity, session_id, parent_session_id, role, content, ts::text,
       turn_key::text, embed::text, embedding::text, model_id::text, subject,
       metadata::text, tsv::text
  FROM (SELECT * FROM conversations ORDER BY id) AS turns
UNION ALL
SELECT 'agent', agent_identity, kind, first_seen::text, last_seen::text, attrs::text,
       '', '', '', '', '', '', '', ''
  FROM (SELECT * FROM memory_agents ORDER BY agent_identity) AS agents
UNION ALL
SELECT 'edge', parent_identity, child_identity, parent_session_id, child_session_id,
       kind, task, subject, ts::text, attrs::text, '', '', '', ''
  FROM (SELECT * FROM memory_agent_edges ORDER BY id) AS edges
"""
EMPTY = """
DELETE FROM memory_entries;
DELETE FROM conversations;
DELETE FROM memory_agent_edges;
DELETE FROM memory_agents;
DELETE FROM memory_journal_positions
"""

texts = st.sampled_from(["a", "ab", "abc", "b", "%", "_a", "A", " "])
times = st.integers(0, 5).map(lambda minutes: START + timedelta(minutes=minutes))
owner = {
    "theme": st.sampled_from([Theme("work"), Theme("home")]),
    "subject": st.sampled_from([None, Subject("a" * 32)]),
    "at": times,
}
mirrored = {
    **owner,
    "target": st.sampled_from(Target),
    "source": st.sampled_from([None, "file-1", "file-2"]),
}
matching = {"old_text": st.just("") | texts, "previous": st.none() | texts}
writes = st.one_of(
    st.builds(AddEntry, content=texts, **mirrored),
    st.builds(ReplaceEntry, content=texts, **matching, **mirrored),
    st.builds(RemoveEntry, **matching, **mirrored),
    st.builds(
        AddTurn,
        session_id=st.sampled_from(["s1", "s2"]),
        role=st.sampled_from([Role.USER, Role.ASSISTANT]),
        content=texts,
        ordinal=st.integers(1, 2),
        embed=st.booleans(),
        **owner,
    ),
    st.builds(
        SeeAgent, theme=owner["theme"], at=times, kind=st.sampled_from(AgentKind)
    ),
    st.builds(
        RecordDelegation,
        parent_session_id=st.just("s1"),
        child_session_id=st.just("s2"),
        task=texts,
        **owner,
    ),
)
vectors = st.none() | st.lists(st.integers(1, 9), min_size=3, max_size=3)
journals = st.lists(st.tuples(writes, vectors), min_size=1, max_size=14)
on_one_database = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def accepted(journal, *, epoch):
    return [
        Accepted(epoch=epoch, position=3 * number + 1, write=write)
        for number, (write, _) in enumerate(journal)
    ]


def embeddings(journal):
    return {
        index: vector for index, (_, vector) in enumerate(journal) if vector is not None
    }


@pytest.fixture
def direct(dsn):
    """A connection past the store, for all examples of a test."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        yield conn


def rows(direct):
    return direct.execute(EVERYTHING).fetchall()


def empty(direct):
    # A TRUNCATE makes a dozen files anew.
    direct.execute(EMPTY)


@on_one_database
@given(journals, st.data())
def test_replaying_any_prefixes_changes_nothing(store, direct, journal, data):
    lengths = data.draw(st.lists(st.integers(0, len(journal)), max_size=4))
    vectors = embeddings(journal)

    empty(direct)
    once = store.apply(accepted(journal, epoch=str(uuid4())), vectors)
    expected = rows(direct)

    empty(direct)
    epoch = str(uuid4())
    batch = accepted(journal, epoch=epoch)
    again = [store.apply(batch[:length], vectors) for length in lengths]
    again.append(store.apply(batch, vectors))
    again.append(store.apply(batch, vectors))

    assert rows(direct) == expected
    assert sum(again) == once == len(journal)
    assert again[-1] == 0


@on_one_database
@given(journals, st.data())
def test_it_does_not_matter_how_a_journal_is_cut_into_batches(
    store, direct, journal, data
):
    vectors = embeddings(journal)
    empty(direct)
    store.apply(accepted(journal, epoch=str(uuid4())), vectors)
    expected = rows(direct)

    empty(direct)
    rest = list(enumerate(accepted(journal, epoch=str(uuid4()))))
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        part, rest = rest[:size], rest[size:]
        mine = {n: vectors[i] for n, (i, _) in enumerate(part) if i in vectors}
        store.apply([accepted for _, accepted in part], mine)
    assert rows(direct) == expected


class Model:
    """What the entries of one theme and target must be, in plain Python."""

    def __init__(self):
        self.entries = []

    def apply(self, write):
        found = self._find(write)
        if isinstance(write, AddEntry):
            self._say(write)
        elif isinstance(write, RemoveEntry):
            if found and not self._leave(found, write):
                self.entries.remove(found)
        elif found and found["content"] == write.content:
            self._hold(found, write)
            found |= {"updated": write.at, "source": write.source}
        elif found is None or self._leave(found, write):
            self._say(write)
        elif any(e["content"] == write.content for e in self.entries):
            self.entries.remove(found)
            self._say(write)
        else:
            files = {write.source} - {None}
            found |= {"content": write.content, "updated": write.at}
            found |= {"source": write.source, "files": files, "missing": set()}

    def _find(self, write):
        if isinstance(write, AddEntry):
            return None
        if write.previous:
            matches = [e for e in self.entries if e["content"] == write.previous]
        elif write.old_text.strip():
            matches = [e for e in self.entries if write.old_text in e["content"]]
        else:
            matches = []
        ranked = enumerate(matches)
        best = max(
            ranked,
            key=lambda n: (
                write.source in n[1]["files"] - n[1]["missing"],
                n[1]["source"] == write.source,
                n[1]["updated"],
                n[0],
            ),
            default=(0, None),
        )
        return best[1]

    def _leave(self, found, write):
        """Whether another file holds it still; then it is no longer in this one."""
        others = found["files"] - found["missing"] - {write.source}
        if write.source is None or not others:
            return False
        found["missing"] |= found["files"] & {write.source}
        return True

    def _hold(self, found, write):
        found["files"] |= {write.source} - {None}
        found["missing"] -= {write.source}

    def _say(self, write):
        for entry in self.entries:
            if entry["content"] == write.content:
                entry["source"] = entry["source"] or write.source
                self._hold(entry, write)
                return
        fresh = {"content": write.content, "created": write.at, "updated": write.at}
        files = {write.source} - {None}
        self.entries.append(
            fresh | {"source": write.source, "files": files, "missing": set()}
        )


@on_one_database
@given(
    st.lists(
        st.one_of(
            st.builds(kind, theme=st.just("work"), target=st.just(Target.USER), **more)
            for kind, more in [
                (AddEntry, {"content": texts}),
                (ReplaceEntry, {"content": texts, **matching}),
                (RemoveEntry, matching),
            ]
            for more in [{**more, "at": times, "source": mirrored["source"]}]
        ),
        max_size=12,
    )
)
def test_entries_do_what_the_plain_model_does(store, direct, journal):
    model = Model()
    for write in journal:
        model.apply(write)
    empty(direct)
    store.apply(accepted([(write, None) for write in journal], epoch=str(uuid4())), {})
    found = direct.execute(
        "SELECT content, source, created_at, updated_at,"
        " ARRAY(SELECT unnest(files) ORDER BY 1),"
        " ARRAY(SELECT unnest(missing_from) ORDER BY 1) FROM memory_entries"
    ).fetchall()
    expected = [
        (
            *(e["content"], e["source"], e["created"], e["updated"]),
            *(sorted(e["files"]), sorted(e["missing"])),
        )
        for e in model.entries
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


class TestPositions:
    def test_are_kept_per_theme_and_epoch(self, memory):
        here, there = str(uuid4()), str(uuid4())
        batch = [
            Accepted(epoch=here, position=5, write=memory.add("1")),
            Accepted(
                epoch=here, position=4, write=memory.add("2", theme=Theme("home"))
            ),
            Accepted(epoch=there, position=3, write=memory.add("3")),
        ]
        assert memory.store.apply(batch, {}) == 3
        assert memory.query(
            "SELECT agent_identity, epoch::text, position FROM memory_journal_positions"
            " ORDER BY position"
        ) == [("work", there, 3), ("home", here, 4), ("work", here, 5)]

    def test_do_not_move_when_a_write_is_refused(self, memory):
        batch = memory.accept(memory.add("fine"), memory.add("bad \x00"))
        with pytest.raises(UnstorableWrite):
            memory.store.apply(batch, {})
        assert memory.contents() == []
        assert memory.store.apply(batch[:1], {}) == 1
        assert memory.contents() == ["fine"]

    def test_let_two_processes_replay_one_journal_at_once(self, memory, dsn):
        # An adopted journal may be adopted twice.
        olds = [memory.add(f"entry {n:02}") for n in range(20)]
        news = [memory.replace(f"entry {n:02}", f"new {n}") for n in range(20)]
        batch = memory.accept(*olds, *news, *map(memory.add, ["entry 03", "entry 04"]))
        with closing(Store(dsn)) as other, ThreadPoolExecutor(4) as pool:
            stores = [memory.store, other] * 2
            done = list(pool.map(lambda store: store.apply(batch, {}), stores))
        assert sorted(done) == [0, 0, 0, 42]
        assert len(memory.contents()) == 22

    def test_are_locked_in_one_order_by_all(self, memory, dsn, eventually):
        # Else two processes with the same themes could wait for each other.
        a, b = Theme("a"), Theme("b")
        memory.apply(memory.add("1", theme=b), memory.add("1", theme=a))
        lock = (
            "SELECT position FROM memory_journal_positions"
            " WHERE agent_identity = %s FOR UPDATE NOWAIT"
        )
        waiting = (
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        with psycopg.connect(dsn) as other, ThreadPoolExecutor(1) as pool:
            other.execute(lock, ["b"])
            batch = memory.accept(memory.add("2", theme=b), memory.add("2", theme=a))
            call = pool.submit(memory.store.apply, batch, {})
            eventually(lambda: memory.query(waiting))
            with pytest.raises(psycopg.errors.LockNotAvailable):
                memory.query(lock, "a")
            other.rollback()
            assert call.result(10) == 2

    def test_an_empty_batch_is_nothing(self, memory):
        assert memory.store.apply([], {}) == 0
