from __future__ import annotations

import pytest

from hermes_pgmemory.models import Role, Subject, Theme
from hermes_pgmemory.store.turns import turn_key


class TestTurns:
    def test_a_turn_reported_twice_is_one(self, memory):
        memory.apply(memory.turn("hello"), memory.turn("hello"))
        memory.apply(memory.turn("hello"))
        assert memory.query("SELECT content FROM conversations") == ["hello"]

    def test_a_sentence_said_twice_is_two(self, memory):
        memory.apply(memory.turn("hello", ordinal=1), memory.turn("hello", ordinal=2))
        assert memory.query("SELECT content FROM conversations") == ["hello"] * 2

    @pytest.mark.parametrize(
        "other",
        [
            {"role": Role.ASSISTANT},
            {"session_id": "s2"},
            {"subject": Subject("a" * 32)},
            {"theme": Theme("home")},
        ],
        ids=str,
    )
    def test_the_same_words_elsewhere_are_another_turn(self, memory, other):
        memory.apply(memory.turn("hello"), memory.turn("hello", **other))
        assert len(memory.query("SELECT id FROM conversations")) == 2

    def test_ids_follow_the_order_of_speech(self, memory):
        said = [f"sentence {n}" for n in range(100, 0, -1)]
        memory.apply(*map(memory.turn, said))
        assert memory.query("SELECT content FROM conversations ORDER BY id") == said

    def test_keeps_everything_it_was_told(self, memory):
        turn = memory.turn(
            "Grüße",
            parent_session_id="s0",
            role=Role.ASSISTANT,
            metadata={"platform": "cli"},
            subject=Subject("b" * 32),
        )
        memory.apply(turn, vectors={0: [1, 0, 0]})
        assert memory.query(
            "SELECT agent_identity, session_id, parent_session_id, role, content, ts,"
            " subject, metadata, embedding::text, embed, tsv::text FROM conversations"
        ) == [
            (
                "work",
                "s1",
                "s0",
                "assistant",
                "Grüße",
                turn.at,
                "b" * 32,
                {"platform": "cli"},
                "[1,0,0]",
                True,
                "'gruße':1",
            )
        ]

    def test_a_turn_not_to_be_embedded_never_is(self, memory):
        memory.apply(memory.turn("hello", embed=False), vectors={0: [1, 0, 0]})
        rows = memory.query("SELECT embedding, model_id, embed FROM conversations")
        assert rows == [(None, None, False)]

    def test_vectors_find_their_turns_in_a_mixed_batch(self, memory):
        memory.apply(
            memory.add("entry"),
            memory.turn("one"),
            memory.turn("two"),
            memory.turn("three"),
            vectors={0: [1, 0, 0], 1: [0, 1, 0], 3: [0, 0, 1]},
        )
        rows = memory.query("SELECT content, embedding::text FROM conversations")
        assert rows == [("one", "[0,1,0]"), ("two", None), ("three", "[0,0,1]")]
        assert memory.query("SELECT embedding::text FROM memory_entries") == ["[1,0,0]"]


def test_the_key_of_a_turn_never_changes(memory):
    # Written once, compared for ever: another release must find the same bytes.
    # The text hashed is ["user", "Grüße", null, 2] in UTF-8.
    assert turn_key(memory.turn("Grüße", ordinal=2)).hex() == (
        "faebb4d0062675e256894c5b0ac6e66702a7a801ed461022faba2e941c58f383"
    )
