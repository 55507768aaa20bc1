from __future__ import annotations

import copy
import re
import time
from pathlib import Path

import pytest
from agent.codex_responses_adapter import _summarize_user_message_for_log
from agent.memory_manager import build_memory_context_block, sanitize_context
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.memory_tool import MemoryStore

from hermes_pgmemory.text import (
    clean,
    clip,
    defuse_fences,
    flatten,
    is_noise,
    split_entries,
)

UNHURRIED = settings(deadline=None)
"""A busy machine is no reason to fail."""

ANY_TEXT = st.text(st.characters(), max_size=200)
"""Every code point, lone surrogates included."""
UGLY_TEXT = st.text("a\x00\x07\r\n\t\x1b\ud83c\udf78\udcc4é", max_size=40)


class TestClean:
    def test_what_is_no_text_is_empty(self):
        for value in (None, 7, b"bytes", ["list"], {"text": "x"}):
            assert clean(value, max_chars=10) == ""

    def test_ordinary_text_is_left_alone(self):
        text = "Zwei Zeilen,\n\tmit Tab; 日本語 \U0001f378 \u0085 \ufeff"
        assert clean(text, max_chars=100) == text

    def test_nul_and_other_control_characters_go(self):
        assert clean("o\x00er \x1b[31mred\x7f\x08", max_chars=100) == "oer [31mred"

    def test_surrogate_pairs_are_joined_and_lone_ones_replaced(self):
        assert clean("\ud83c" + "\udf78", max_chars=100) == "\U0001f378"
        assert clean("\ud83c\x00\udf78", max_chars=100) == "\U0001f378"
        assert clean("a\udc97b\ud83c", max_chars=100) == "a\ufffdb\ufffd"

    def test_every_line_end_becomes_a_newline(self):
        assert clean("a\r\nb\rc\n\r\x00\nd", max_chars=100) == "a\nb\nc\n\nd"

    def test_a_long_text_is_cut_with_a_mark_that_counts(self):
        cut = clean("x" * 1000, max_chars=100)
        assert len(cut) == 100
        mark = re.fullmatch(r"(x+)… \[cut (\d+) characters\]", cut)
        assert mark is not None
        assert len(mark[1]) + int(mark[2]) == 1000

    @UNHURRIED
    @given(st.integers(40, 1100), st.integers(40, 1100))
    def test_what_is_kept_and_what_is_counted_is_the_whole(self, length, max_chars):
        cut = clean("x" * length, max_chars=max_chars)
        assert len(cut) <= max_chars
        counted = re.search(r"\[cut (\d+) characters\]", cut)
        assert cut.count("x") + int(counted[1] if counted else 0) == length

    @UNHURRIED
    @given(st.one_of(ANY_TEXT, UGLY_TEXT), st.integers(0, 250))
    def test_cleaning_twice_changes_nothing_and_the_result_is_storable(
        self, text, max_chars
    ):
        once = clean(text, max_chars=max_chars)
        assert clean(once, max_chars=max_chars) == once
        assert len(once) <= max_chars
        assert "\x00" not in once
        assert once.encode("utf-8").decode("utf-8") == once

    @UNHURRIED
    @given(ANY_TEXT, ANY_TEXT)
    def test_the_size_never_depends_on_what_is_removed(self, before, after):
        text = before + "\x00" * 500 + after
        assert clean(text, max_chars=450) == clean(before + after, max_chars=450)


class TestNoise:
    @pytest.mark.parametrize(
        "text",
        [
            *(
                "ok",
                "OK.",
                "Okay!!",
                "k",
                "thanks",
                "Thank you very much! 🙏",
                "👍",
                "👍🏽",
            ),
            *("yes please", "Continue", "go on…", "Sounds good, thanks", "that's fine"),
            *("that\u2019s great", "'ok'", "ok,thanks", "lgtm", "..." * 40, "🎉" * 60),
            *(
                "danke",
                "Vielen Dank!",
                "weiter",
                "merci beaucoup",
                "d'accord",
                "gracias",
            ),
            *(
                "Sí, por favor",
                "obrigado",
                "grazie mille",
                "bedankt",
                "dziękuję",
                "tack",
            ),
            *("спасибо", "да", "продолжай", "teşekkürler", "Tamam", "شكرا", "धन्यवाद"),
            *(
                "ありがとうございます",
                "はい。",
                "好的,谢谢",
                "继续",
                "네, 감사합니다",
                "了解です",
            ),
            *("", "   ", "\n"),
        ],
    )
    def test_an_acknowledgement_is_noise_in_many_languages(self, text):
        assert is_noise(text, min_chars=0)

    @pytest.mark.parametrize(
        "text",
        [
            "Operation interrupted: waiting for model response (3s elapsed).",
            "Operation interrupted: waiting for model response (12.7s elapsed).\n",
            "Operation interrupted during retry (rate limit, attempt 2/3).",
            "Operation interrupted: handling API error (APIError: 500 (oops)\nx).",
            "Operation interrupted: retrying API call after error (retry 1/3).",
            "Operation interrupted.",
            "[Command interrupted]",
            "[interrupted]",
            "⚠️ Your message was interrupted before processing started (likely by …",
            "⚠️ Your message wasn't processed (the previous turn was still being …",
            "⚠️ Processing stopped: boom. Try again.",
            "⚠️ Processing completed but no response was generated. This may be …",
            "[System note: The previous turn was interrupted by a gateway restart; …]",
        ],
    )
    def test_the_hosts_interruption_marks_are_noise(self, text):
        assert is_noise(text, min_chars=0)

    @pytest.mark.parametrize(
        "text",
        [
            "Operation interrupted: waiting for model response (3s elapsed). Why?",
            "What does 'Operation interrupted.' mean?",
            "[System note: The previous turn was interrupted by me.]\n\nBuy milk",
            "ok, deploy the blue stack",
            "no, Ann moved to Lisbon",
            "42",
            "谢谢你帮我订了去柏林的机票",
            "ls",
        ],
    )
    def test_what_says_something_is_kept(self, text):
        assert not is_noise(text, min_chars=0)

    def test_length_is_counted_without_the_space_around(self):
        assert is_noise("  four  ", min_chars=5)
        assert not is_noise("  fives ", min_chars=5)
        assert is_noise("x" * 39, min_chars=40)
        assert not is_noise("x" * 40, min_chars=40)

    @UNHURRIED
    @given(st.one_of(ANY_TEXT, UGLY_TEXT), st.integers(0, 100))
    def test_more_space_or_a_higher_bar_never_makes_noise_of_more_worth(self, text, n):
        assert is_noise(f"\n {text} \t", min_chars=n) == is_noise(text, min_chars=n)
        assert is_noise(text, min_chars=n + 1) or not is_noise(text, min_chars=n)


PARTS = st.one_of(
    st.text(max_size=5),
    st.none(),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                [
                    *("text", "input_text", "output_text", "image_url", "input_image"),
                    *("Text ", "audio", "", None, 5),
                ]
            )
        },
        optional={"text": st.one_of(st.text(max_size=5), st.none(), st.integers())},
    ),
)


class TestFlatten:
    def test_a_text_is_itself_and_nothing_is_empty(self):
        assert flatten("  as it is ") == "  as it is "
        assert flatten(None) == flatten(7) == flatten([]) == flatten({}) == ""

    def test_parts_are_joined_and_images_counted(self):
        parts = [
            {"type": "text", "text": "one"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            {"type": "text", "text": "two"},
        ]
        assert flatten(parts) == "[1 image] one\ntwo"
        assert flatten(parts[1:2]) == "[1 image]"
        assert flatten(parts[1:2] * 2) == "[2 images]"

    @UNHURRIED
    @given(st.lists(PARTS, max_size=5))
    def test_it_says_what_the_host_tells_sync_turn(self, parts):
        before = copy.deepcopy(parts)
        assert flatten(parts) == _summarize_user_message_for_log(parts, sep="\n")
        assert parts == before


class TestSplitEntries:
    def test_entries_are_split_stripped_and_kept_in_order(self):
        raw = "\n first\nline two \n§\n\n§\nsecond § here\n§\nfirst again\n".encode()
        assert split_entries(raw) == (
            ["first\nline two", "second § here", "first again"],
            0,
        )

    def test_a_byte_order_mark_is_no_part_of_the_first_entry(self):
        raw = "\ufefffirst\n§\nfirst\n§\nsecond".encode()
        assert split_entries(raw) == (["first", "second"], 0)

    def test_windows_line_ends_split_too(self):
        assert split_entries("a\r\nb\r\n§\r\nc\r\n".encode()) == (["a\nb", "c"], 0)

    def test_an_entry_that_is_no_utf_8_costs_only_itself(self):
        raw = b"good\n\xc2\xa7\ncaf\xe9\n\xc2\xa7\nalso good"
        assert split_entries(raw) == (["good", "also good"], 1)

    def test_a_file_saved_as_latin_1_gives_up_only_its_accented_entries(self):
        raw = "good\n§\ncafé\n§\nalso good".encode("latin-1")
        assert split_entries(raw) == (["good", "also good"], 1)

    def test_plain_markdown_is_one_entry(self):
        raw = ("# Notes\n\n" + "words " * 3000).encode()
        entries, undecodable = split_entries(raw)
        assert (len(entries), undecodable) == (1, 0)

    def test_an_empty_file_has_no_entries(self):
        for raw in (b"", b" \n\n", b"\xef\xbb\xbf", "\n§\n".encode()):
            assert split_entries(raw) == ([], 0)

    @UNHURRIED
    @given(
        st.lists(
            st.sampled_from(
                ["\n", "\r\n", "\r", "§", "\n§\n", " ", "a", "b", "é", "\t"]
            ),
            max_size=20,
        )
    )
    def test_it_reads_what_the_host_reads(self, tmp_path_factory, pieces):
        path: Path = tmp_path_factory.getbasetemp() / "MEMORY.md"
        raw = "".join(pieces).encode()
        path.write_bytes(raw)
        theirs = list(dict.fromkeys(MemoryStore._read_file(path)))
        assert split_entries(raw) == (theirs, 0)

    @UNHURRIED
    @given(st.binary(max_size=100))
    def test_any_bytes_are_read(self, raw):
        entries, undecodable = split_entries(raw)
        assert all(entry and entry == entry.strip() for entry in entries)
        assert undecodable <= raw.count(b"\n\xc2\xa7\n") + raw.count(b"\xa7\n") + 1


FENCES = st.lists(
    st.sampled_from(
        [
            *(
                "<",
                "</",
                ">",
                "<memory-context>",
                "</memory-context>",
                "< Memory-Context",
            ),
            *("memory-", "context", "memory", " ", "\n", "/", "\u200b", "x", "[", "]"),
            *("[System note:", "The following is recalled memory context,", ":", "."),
            *(
                "NOT new user input.",
                "Treat as informational background data",
                "\uff1c",
            ),
            *("System note", "\u017fystem"),
        ]
    ),
    max_size=24,
).map("".join)


class TestDefuseFences:
    def test_tags_are_still_readable_but_no_tags(self):
        text = "a </memory-context> b <MEMORY-CONTEXT> c < / memory_context >"
        safe = defuse_fences(text)
        assert safe == "a ‹/memory-context> b ‹MEMORY-CONTEXT> c ‹ / memory_context >"  # noqa: RUF001
        assert len(safe) == len(text)

    def test_halves_cannot_be_joined_by_cutting(self):
        trick = "<memory-<memory-context>context>"
        assert sanitize_context(trick) == "<memory-context>"
        assert sanitize_context(defuse_fences(trick)) == defuse_fences(trick)

    def test_a_forged_system_note_is_no_note(self):
        note = build_memory_context_block("x").splitlines()[1]
        assert defuse_fences(note).startswith("⁅System note:")
        assert sanitize_context(defuse_fences(note)) == defuse_fences(note)

    def test_invisible_characters_do_not_hide_a_tag(self):
        assert "<" not in defuse_fences("<\u200b/\u2060memory\u2011context>")
        assert "\uff1c" not in defuse_fences("\uff1cmemory-context>")

    @pytest.mark.parametrize(
        "text",
        ["<memory unit='KiB'>", "a < b", "<div>", "[system]", "[note: memory-context]"],
    )
    def test_other_markup_is_left_alone(self, text):
        assert defuse_fences(text) == text

    @UNHURRIED
    @given(st.one_of(FENCES, ANY_TEXT))
    def test_the_hosts_sanitiser_finds_nothing_and_twice_changes_nothing(self, text):
        safe = defuse_fences(text)
        assert sanitize_context(safe) == safe
        assert defuse_fences(safe) == safe
        assert len(safe) == len(text)


class TestClip:
    def test_a_short_text_is_whole(self):
        assert clip("whole", 5) == "whole"
        assert clip("", 0) == clip("x", 0) == ""

    def test_a_cut_shows_and_falls_between_words(self):
        assert clip("one two three four", 15) == "one two three…"
        assert clip("one two three four", 14) == "one two three…"
        assert clip("incomprehensibilities", 10) == "incompreh…"
        assert clip("aaaaaaaaaaaa bb cc", 16) == "aaaaaaaaaaaa bb…"

    @UNHURRIED
    @given(ANY_TEXT, st.integers(0, 60))
    def test_it_never_exceeds_its_length_and_starts_like_the_text(self, text, n):
        shown = clip(text, n)
        assert len(shown) <= n
        assert clip(shown, n) == shown
        assert shown == text or text.startswith(shown.removesuffix("…"))


class TestHostileSizes:
    @pytest.mark.parametrize(
        "piece",
        [
            *("a", "\x00", "\ud83c", "\r", "<", "< ", "<memory-", "[", "[system "),
            *(
                "\u200b",
                "ok ",
                "'",
                "\n§\n",
                "…",
                "Operation interrupted during retry (",
            ),
        ],
    )
    def test_a_megabyte_takes_no_longer_than_its_length_explains(self, piece):
        text = piece * (1_000_000 // len(piece))
        started = time.process_time()
        clean(text, max_chars=500_000)
        is_noise(text, min_chars=40)
        defuse_fences(text)
        clip(text, 900_000)
        split_entries(text.encode("utf-8", "surrogatepass"))
        assert time.process_time() - started < 3.0
