"""Texts that broke other memories."""

from __future__ import annotations

import random
from functools import cache

import pytest

from hermes_pgmemory.errors import UnstorableWrite


def letters(length, first=0x4E00, last=0x9FFF):
    # Random on purpose: PostgreSQL compresses repetition away, and hides its limits.
    return map(chr, random.Random(1).choices(range(first, last), k=length))


MAKERS = {
    "6,000 random characters": lambda: "".join(letters(6000)),
    "a word of 5,000 letters": lambda: "".join(letters(5000, 97, 107)),
    "words that fill a tsvector": lambda: " ".join(
        f"{n:x}-{n:o}" for n in range(150_000)
    ),
    "4-byte letters": lambda: " ".join(
        f"{letter}-{chr(0x20000 + n % 40_000)}"
        for n, letter in enumerate(letters(300_000, 0x20000, 0x2A6DF))
    ),
    "addresses": lambda: " ".join(f"h{n}.io/p{n}" for n in range(100_000)),
    "no words at all": lambda: "\n" * 300_000,
}


@cache
def long(kind):
    return MAKERS[kind]()


class TestLongTexts:
    @pytest.mark.parametrize("kind", MAKERS)
    def test_are_stored_whole(self, memory, kind):
        text = long(kind)
        memory.apply(memory.add(text), memory.turn(text))
        assert memory.contents() == [text]
        assert memory.query("SELECT content FROM conversations") == [text]

    @pytest.mark.parametrize("kind", MAKERS)
    def test_can_be_replaced_and_removed(self, memory, kind):
        text = long(kind)
        memory.apply(memory.add("short"), memory.replace("short", text))
        memory.apply(memory.replace("", "", previous=text))
        assert memory.contents() == [""]

    def test_are_found_by_the_words_of_their_beginning(self, memory):
        memory.apply(memory.add(f"needle {'straw ' * 400_000}"))
        assert [hit.content[:6] for hit in memory.entries("needle")] == ["needle"]

    def test_may_be_asked(self, memory):
        memory.apply(memory.add("needle"))
        for text in map(long, MAKERS):
            found = memory.entries(f"needle {text}")
            assert [hit.content for hit in found] == ["needle"]


class TestUncleanText:
    @pytest.mark.parametrize("text", ["o\x00er", "\udc97", "\ud83c\udf78"], ids=ascii)
    @pytest.mark.parametrize("build", ["add", "turn"])
    def test_is_refused_and_the_batch_with_it(self, memory, text, build):
        batch = memory.accept(memory.add("fine"), getattr(memory, build)(text))
        with pytest.raises(UnstorableWrite):
            memory.store.apply(batch, {})
        assert memory.contents() == []

    @pytest.mark.parametrize("text", ["a\x00", "\udc97"], ids=ascii)
    def test_in_metadata_is_refused(self, memory, text):
        with pytest.raises(UnstorableWrite):
            memory.apply(memory.add("fine", metadata={"k": text}))
        with pytest.raises(UnstorableWrite):
            memory.apply(memory.turn("fine", metadata={"k": text}))

    @pytest.mark.parametrize("text", ["o\x00er", "\udc97"], ids=ascii)
    def test_is_told_without_its_content(self, memory, text):
        with pytest.raises(UnstorableWrite) as refused:
            memory.apply(memory.add(f"my secret {text}"))
        assert "secret" not in str(refused.value)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            "\n",
            "'; DROP TABLE x; --",
            "%s %(x)s %%",
            "\\",
            "🦔",
            "a\u0301",
            "{}",
        ],
        ids=ascii,
    )
    def test_that_is_only_odd_is_stored(self, memory, text):
        memory.apply(memory.add(text, metadata={"k": text}), memory.turn(text))
        assert memory.contents() == [text]
        assert memory.query("SELECT content FROM conversations") == [text]


class TestBadVectors:
    @pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e6, -70000.0])
    @pytest.mark.parametrize("build", ["add", "turn"])
    def test_are_refused_and_the_batch_with_them(self, memory, value, build):
        batch = memory.accept(memory.add("fine"), getattr(memory, build)("x"))
        with pytest.raises(UnstorableWrite):
            memory.store.apply(batch, {1: [value, 0, 0]})
        assert memory.contents() == []
