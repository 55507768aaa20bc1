"""A text that is stored with its vector already is not embedded again."""

from __future__ import annotations

import psycopg
import pytest

from hermes_pgmemory.models import SeeAgent, Subject, Theme
from hermes_pgmemory.store import Store

HERS, HIS = Subject("a" * 32), Subject("b" * 32)


@pytest.fixture
def known(memory):
    return lambda *writes: memory.store.known_vectors(writes, timeout_s=5)


def test_a_text_is_known_in_its_theme_to_its_contact_and_in_its_context(memory, known):
    writes = [
        memory.add("e", subject=HERS),
        memory.turn("t", context="before"),
        memory.turn("bare"),
    ]
    memory.apply(*writes, vectors={0: [1, 0, 0], 1: [0, 1, 0]})
    assert known(*writes) == {0: [1, 0, 0], 1: [0, 1, 0]}
    assert known(
        memory.turn("t", context="before", session_id="another", ordinal=2)
    ) == {0: [0, 1, 0]}
    assert known(memory.add("e", subject=HERS, target="user")) == {0: [1, 0, 0]}
    strangers = [
        memory.add("e"),
        memory.add("e", subject=HIS),
        memory.add("e", subject=HERS, theme=Theme("home")),
        memory.turn("t"),
        memory.turn("t", context="after"),
        memory.turn("t", context="before", subject=HIS),
        memory.turn("t", context="before", theme=Theme("home")),
    ]
    assert known(*strangers) == {}


def test_what_has_no_text_is_passed_over(memory, known):
    assert known() == {}
    seen = SeeAgent(theme=Theme("work"), kind="theme", at=memory.add("e").at)
    memory.apply(memory.add("e"), vectors={0: [1, 0, 0]})
    assert known(seen, memory.add("e")) == {1: [1, 0, 0]}
    assert known(memory.add("\ud800"), memory.turn("\x00 \ud800")) == {}


def test_vectors_of_another_model_are_not_known(memory, dsn):
    memory.apply(memory.add("e"), vectors={0: [1, 0, 0]})
    other = Store(dsn, model="other")
    try:
        assert other.known_vectors([memory.add("e")], timeout_s=5) == {}
    finally:
        other.close()


def test_what_is_embedded_later_is_known_by_what_was_embedded(memory, known):
    memory.apply(memory.turn("question"), memory.turn("answer"))
    rows = memory.store.unembedded("turns", limit=2, timeout_s=5)
    assert [row.text for row in rows] == ["question", "question\nanswer"]
    vectors = [(row, [1, 0, 0]) for row in rows]
    assert memory.store.set_vectors("turns", vectors, timeout_s=5) == 2
    assert known(memory.turn("answer"), memory.turn("answer", context="question")) == {
        1: [1, 0, 0]
    }


def test_the_look_up_reads_an_index(memory, dsn):
    said = [memory.turn(f"t{n}", session_id=f"s{n}") for n in range(500)]
    memory.apply(*said, vectors={n: [1, 0, 0] for n in range(500)})
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("ANALYZE conversations")
        plan = conn.execute(
            "EXPLAIN SELECT FROM conversations"
            " WHERE agent_identity = 'work' AND text_hash = '\\x00'"
        ).fetchall()
    assert "ix_conversations_text_hash" in str(plan)
