from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_pgmemory.repetition import restates, without_repetitions, words_of

LONG = (
    "The nightly backup of the customer database runs at the usual time, and its log "
    "goes to the shared folder where everyone of the team can read it"
)


def same(later, earlier):
    return restates(words_of(later), words_of(earlier))


class TestRepeats:
    @pytest.mark.parametrize(
        ("later", "earlier"),
        [
            ("The port is 8080.", "the port is  8080"),
            ("- **The** port: is 8080!", "The port is 8080"),
            ("THE PORT IS 8080", "The port is 8080"),
            (LONG.replace("usual time, and", "usual time and"), LONG),
            (LONG.replace("where everyone", "everyone"), LONG),
            (LONG.replace("usual ", ""), LONG),
            ("我们周三开会。", "我们周三开会"),
            ("🦔", "🦔 "),
        ],
    )
    def test_what_says_nothing_more(self, later, earlier):
        assert same(later, earlier)


class TestIsOfItsOwn:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("The port is 8080", "The port is 8081"),
            ("Anna has the key", "Anne has the key"),
            ("Due on 2026-05-03", "Due on 2026-05-04"),
            ("Anna pays Bob", "Bob pays Anna"),
            ("tea", "tea and cake"),
            ("我们周三开会", "我们周四开会"),
            ("🦔", "🦦"),
            (LONG, LONG.replace("usual", "same")),
            (LONG, LONG.replace("customer database", "customer database of Oslo")),
            (LONG, LONG.replace("runs at", "runs not at")),
            (LONG, LONG.replace("runs at", "runs 3 times at")),
            (LONG, LONG.replace("everyone", "everyone except Kim")),
            (LONG, LONG + " nie"),
        ],
    )
    def test_what_differs_in_a_number_a_name_or_a_meaning(self, one, other):
        assert not same(one, other)
        assert not same(other, one)

    def test_what_has_a_word_more(self):
        assert not same(LONG.replace("its log", "its long log"), LONG)

    def test_what_lacks_too_many_words(self):
        assert not same("the cat sat on a mat", "the cat sat there on a mat")


texts = st.lists(
    st.sampled_from(["a", "b", "c", "Anna", "8", "nicht", "北京"]), max_size=30
).map(" ".join)


@given(st.lists(texts, max_size=8))
def test_each_text_left_out_is_told_by_a_better_one(some):
    kept = without_repetitions(some, str, [])
    assert kept[:1] == some[:1]
    for text in some:
        assert text in kept or any(same(text, other) for other in kept)
    for n, text in enumerate(kept):
        assert not any(same(text, other) for other in kept[:n])


@given(texts, texts)
def test_numbers_and_names_are_never_lost(later, earlier):
    if same(later, earlier):
        told = {"Anna", "8", "nicht", "北京"}
        assert set(later.split()) & told == set(earlier.split()) & told
