"""What each host event means, and that no telling of a turn is kept twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_pgmemory import capture
from hermes_pgmemory.config import Settings
from hermes_pgmemory.hygiene import MAX_TURN_CHARS
from hermes_pgmemory.models import (
    AddEntry,
    AddTurn,
    RecordDelegation,
    RemoveEntry,
    ReplaceEntry,
    Role,
    Target,
    Theme,
)
from hermes_pgmemory.turn_ledger import CONTEXT_CHARS, Speaker, TurnLedger

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SPEAKER = Speaker(
    theme=Theme("marketing"),
    session_id="s1",
    platform="cli",
    sources={Target.MEMORY: "file1"},
)
QUESTION = "Which colours did we settle on for the spring campaign?"
REPLY = "We settled on teal and coral, as agreed with the print shop."


def entry(action, content="", target="memory", **metadata):
    return capture.entry(action, target, content, metadata, speaker=SPEAKER, at=NOW)


def room(ledger=None, session_id="s1", **settings):
    return capture.Room(
        session_id=session_id,
        speaker=SPEAKER,
        settings=Settings(**settings),
        ledger=ledger or TurnLedger(),
    )


def said(user, assistant=REPLY):
    return [
        {"role": "user", "content": user},
        {"role": "assistant", "content": assistant},
    ]


def turn(user, assistant, messages=None, *, where):
    return capture.turn(user, assistant, messages, room=where, at=NOW)


def ordinals(writes):
    return [(write.role, write.ordinal) for write in writes]


class TestEntry:
    def test_an_add_carries_what_the_host_stored(self):
        write = entry("add", "  The printer is on floor 2.\n", tool_name="memory")
        assert write == AddEntry(
            theme=Theme("marketing"),
            target=Target.MEMORY,
            content="The printer is on floor 2.",
            at=NOW,
            source="file1",
            metadata={"tool_name": "memory", "session_id": "s1", "platform": "cli"},
        )

    def test_a_replace_carries_the_substring_the_host_matched(self):
        write = entry("replace", "floor 3", old_text="floor 2")
        assert isinstance(write, ReplaceEntry)
        assert (write.old_text, write.content, write.previous) == (
            "floor 2",
            "floor 3",
            None,
        )

    def test_a_newer_host_names_the_whole_previous_entry(self):
        write = entry("replace", "b", old_text="a", previous_content="the whole a")
        assert isinstance(write, ReplaceEntry)
        assert write.previous == "the whole a"

    def test_a_removal_with_nothing_to_match_removes_nothing(self):
        assert entry("remove") is None
        assert entry("remove", old_text="   ") is None

    def test_a_removal_matches_by_old_text(self):
        write = entry("remove", old_text="dark mode", target="user")
        assert isinstance(write, RemoveEntry)
        assert (write.target, write.old_text) == (Target.USER, "dark mode")

    @pytest.mark.parametrize(
        ("action", "content", "target"),
        [("add", "  \n ", "memory"), ("add", "x", "diary"), ("erase", "x", "memory")],
    )
    def test_what_the_host_cannot_mean_is_nothing(self, action, content, target):
        assert entry(action, content, target) is None

    def test_secrets_are_gone_before_anything_is_written(self):
        write = entry("add", "db is postgresql://hermes:s3cr3t-word@db/memory ok")
        assert isinstance(write, AddEntry)
        assert "s3cr3t-word" not in write.content
        assert write.content.endswith(" ok")

    def test_unknown_metadata_is_not_kept(self):
        write = entry("add", "x", gateway_session_key="agent:main:sms:+15550100")
        assert isinstance(write, AddEntry)
        assert "15550100" not in str(write.metadata)


class TestTurn:
    def test_keeps_both_sides(self):
        writes = turn(QUESTION, REPLY, where=room())
        assert [(w.role, w.content) for w in writes] == [
            (Role.USER, QUESTION),
            (Role.ASSISTANT, REPLY),
        ]

    @pytest.mark.parametrize("short", ["ok", "thanks!", "Continue.", "", "x" * 39])
    def test_leaves_out_what_says_nothing(self, short):
        writes = turn(short, REPLY, where=room())
        assert [w.role for w in writes] == [Role.ASSISTANT]

    def test_leaves_out_interruption_markers(self):
        marker = "Operation interrupted: waiting for model response (3s elapsed)."
        writes = turn(QUESTION, marker, where=room())
        assert [w.role for w in writes] == [Role.USER]

    def test_reads_the_text_of_multimodal_content(self):
        parts = [
            {"type": "text", "text": QUESTION},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ]
        (write, _) = turn(parts, REPLY, where=room())
        assert QUESTION in write.content
        assert "AAAA" not in write.content

    @pytest.mark.parametrize(
        ("policy", "embedded"),
        [
            ("all", [True, True]),
            ("substantive_only", [True, False]),
            ("none", [False] * 2),
        ],
    )
    def test_the_policy_decides_what_is_embedded(self, policy, embedded):
        writes = turn(QUESTION, REPLY, where=room(conversation_embed_policy=policy))
        assert [w.embed for w in writes] == embedded

    def test_a_turn_belongs_to_the_session_the_host_names(self):
        (write, _) = turn(QUESTION, REPLY, where=room(session_id="other"))
        assert isinstance(write, AddTurn)
        assert write.session_id == "other"


class TestContext:
    """A turn is embedded together with what was said before it."""

    def test_an_answer_carries_its_question_and_the_next_question_the_answer(self):
        where = room()
        first = turn(QUESTION, REPLY, where=where)
        (third, _) = turn(
            "And who prints it, and until when?" + "?" * 9, REPLY, where=where
        )
        assert [w.context for w in first] == ["", QUESTION]
        assert third.context == REPLY

    def test_sessions_do_not_lead_into_each_other(self):
        ledger = TurnLedger()
        turn(QUESTION, REPLY, where=room(ledger, "s1"))
        (first, _) = turn(QUESTION, REPLY, where=room(ledger, "s2"))
        assert first.context == ""

    def test_of_a_long_turn_only_the_end_is_carried(self):
        where = room()
        (_, answer) = turn("word " * 400 + "the end", REPLY, where=where)
        assert answer.context.endswith("the end")
        assert len(answer.context) == CONTEXT_CHARS

    def test_a_transcript_carries_it_too(self):
        writes = capture.transcript(said(QUESTION), room=room(), at=NOW)
        assert [w.context for w in writes] == ["", QUESTION]


class TestTellings:
    """`sync_turn` and `on_session_end` tell of the same turns, in either order."""

    def test_the_transcript_after_the_turns_adds_nothing(self):
        where = room()
        history = said(QUESTION)
        assert turn(QUESTION, REPLY, history, where=where)
        assert capture.transcript(history, room=where, at=NOW) == []

    def test_a_turn_told_after_the_transcript_adds_nothing(self):
        where = room()
        history = said(QUESTION)
        assert len(capture.transcript(history, room=where, at=NOW)) == 2
        assert turn(QUESTION, REPLY, history, where=where) == []

    def test_the_transcript_fills_in_what_was_never_told(self):
        where = room()
        history = said("A question that was asked before we were installed here.")
        history += said(QUESTION, "Another answer, long enough to be worth keeping.")
        turn(QUESTION, history[-1]["content"], history, where=where)
        missing = capture.transcript(history, room=where, at=NOW)
        assert [w.content for w in missing] == [m["content"] for m in history[:2]]

    def test_a_sentence_said_twice_is_two_turns(self):
        where = room()
        first = turn(QUESTION, REPLY, said(QUESTION), where=where)
        second = turn(QUESTION, REPLY, said(QUESTION) * 2, where=where)
        assert ordinals(first) == [(Role.USER, 1), (Role.ASSISTANT, 1)]
        assert ordinals(second) == [(Role.USER, 2), (Role.ASSISTANT, 2)]

    def test_also_when_a_compaction_cut_the_first_saying(self):
        where = room()
        turn(QUESTION, REPLY, said(QUESTION), where=where)
        summary = [{"role": "user", "content": "Summary: " + "they spoke. " * 9}]
        second = turn(QUESTION, REPLY, summary + said(QUESTION), where=where)
        assert ordinals(second) == [(Role.USER, 2), (Role.ASSISTANT, 2)]

    def test_also_when_only_a_transcript_told_of_the_first_saying(self):
        where = room()
        capture.transcript(said(QUESTION), room=where, at=NOW)
        where.ledger.settle(SPEAKER, "s1")  # a compaction ends the first telling
        second = turn(QUESTION, REPLY, said(QUESTION), where=where)
        assert ordinals(second) == [(Role.USER, 2), (Role.ASSISTANT, 2)]

    def test_a_session_that_goes_on_under_a_new_name_repeats_nothing(self):
        where = room()
        history = said(QUESTION)
        turn(QUESTION, REPLY, history, where=where)
        where.ledger.carry(SPEAKER, "s1", "s2")
        renamed = room(where.ledger, "s2")
        assert capture.transcript(history, room=renamed, at=NOW) == []

    def test_also_without_any_transcript(self):
        where = room()
        turn(QUESTION, REPLY, where=where)
        assert ordinals(turn(QUESTION, REPLY, where=where)) == [
            (Role.USER, 2),
            (Role.ASSISTANT, 2),
        ]

    def test_also_after_a_restart_that_replays_the_history(self):
        history = said(QUESTION) * 2
        resumed = turn(QUESTION, REPLY, history, where=room(TurnLedger()))
        assert ordinals(resumed) == [(Role.USER, 2), (Role.ASSISTANT, 2)]

    def test_a_compaction_tells_the_tail_again_without_effect(self):
        where = room()
        history = said(QUESTION) + said("A second question that is long enough, too?")
        capture.transcript(history, room=where, at=NOW)
        assert capture.transcript(history[2:], room=where, at=NOW) == []

    def test_sessions_and_contacts_do_not_share_a_count(self):
        ledger = TurnLedger()
        turn(QUESTION, REPLY, where=room(ledger, "s1"))
        assert ordinals(turn(QUESTION, REPLY, where=room(ledger, "s2"))) == [
            (Role.USER, 1),
            (Role.ASSISTANT, 1),
        ]

    def test_our_own_recalled_block_is_never_read(self):
        message = {
            "role": "user",
            "content": QUESTION,
            "api_content": f"{QUESTION}\n<memory-context>{'old note ' * 20}",
        }
        (write,) = capture.transcript([message], room=room(), at=NOW)
        assert isinstance(write, AddTurn)
        assert write.content == QUESTION

    def test_two_turns_told_at_once_keep_apart_in_time(self):
        writes = capture.transcript(said(QUESTION) * 2, room=room(), at=NOW)
        assert [w.at for w in writes] == sorted({w.at for w in writes})

    @pytest.mark.parametrize("odd", [None, 7, "text", ["user"], {"role": ["user"]}])
    def test_what_is_no_message_costs_the_others_nothing(self, odd):
        history = [
            *said(QUESTION),
            odd,
            *said("Another question, which is surely long enough."),
        ]
        assert len(capture.transcript(history, room=room(), at=NOW)) == 4

    def test_tool_traffic_is_not_spoken(self):
        messages = [
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
            {"role": "tool", "content": "x" * 100},
            {"role": "system", "content": "y" * 100},
        ]
        assert capture.transcript(messages, room=room(), at=NOW) == []

    def test_a_message_keeps_its_own_time(self):
        message = said(QUESTION)[0] | {"timestamp": 1_700_000_000.5}
        (write,) = capture.transcript([message], room=room(), at=NOW)
        assert write.at == datetime.fromtimestamp(1_700_000_000.5, UTC)

    @pytest.mark.parametrize("bad", ["soon", -1, 1e20, float("nan"), True, None])
    def test_an_odd_time_is_no_time(self, bad):
        message = said(QUESTION)[0] | {"timestamp": bad}
        (write,) = capture.transcript([message], room=room(), at=NOW)
        assert write.at.year in (1970, 2026)

    def test_what_the_journal_refused_is_offered_again(self):
        where = room()
        history = said(QUESTION)

        def refuse() -> None:
            with where.ledger.offered(SPEAKER, "s1"):
                turn(QUESTION, REPLY, history, where=where)
                raise OSError("full")

        with pytest.raises(OSError, match="full"):
            refuse()
        again = capture.transcript(history, room=where, at=NOW)
        assert ordinals(again) == [(Role.USER, 1), (Role.ASSISTANT, 1)]

    def test_forgets_the_sessions_longest_unheard_of(self):
        ledger = TurnLedger(sessions=2)
        for name in ("s1", "s2", "s3"):
            turn(QUESTION, REPLY, where=room(ledger, name))
        assert ordinals(turn(QUESTION, REPLY, where=room(ledger, "s3")))[0][1] == 2
        assert ordinals(turn(QUESTION, REPLY, where=room(ledger, "s1")))[0][1] == 1

    @given(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=8),
        st.lists(st.sampled_from(["end", "compact", "restart"]), max_size=4),
        st.randoms(use_true_random=False),
    )
    def test_any_interleaving_keeps_each_saying_once(self, sayings, events, random):
        """The rows a database would keep are exactly the sayings."""
        ledger, history, full, kept = TurnLedger(), [], [], set()

        def keep(writes):
            kept.update((w.role, w.content, w.ordinal) for w in writes)

        for letter in sayings:
            exchange = said(f"{letter}: " + QUESTION, f"{letter}: " + REPLY)
            history, full = history + exchange, full + exchange
            where = room(ledger)
            keep(turn(*(m["content"] for m in exchange), history, where=where))
            event = random.choice([*events, "nothing"])
            if event == "end":
                keep(capture.transcript(history, room=where, at=NOW))
            elif event == "compact":
                keep(capture.transcript(history, room=where, at=NOW))
                ledger.settle(SPEAKER, "s1")
                history = history[-2:]
            elif event == "restart" and history == full:
                ledger = TurnLedger()
        users = [m["content"] for m in full if m["role"] == "user"]
        assert sum(role is Role.USER for role, _, _ in kept) == len(users)
        assert len(kept) == len(full)


class TestDelegation:
    def test_leaves_an_edge_and_a_turn_of_the_parent(self):
        edge, told = capture.delegation(
            "Find a print shop", "Two found.", "child-1", room=room(), at=NOW
        )
        assert isinstance(edge, RecordDelegation)
        assert (edge.parent_session_id, edge.child_session_id) == ("s1", "child-1")
        assert isinstance(told, AddTurn)
        assert "Find a print shop" in told.content
        assert "Two found." in told.content

    def test_an_empty_result_is_told_as_none(self):
        _, told = capture.delegation("Go", "", "child-1", room=room(), at=NOW)
        assert isinstance(told, AddTurn)
        assert "(none)" in told.content

    def test_a_huge_result_is_capped(self):
        _, told = capture.delegation(
            "Go", "word " * 500_000, "child-1", room=room(), at=NOW
        )
        assert isinstance(told, AddTurn)
        assert len(told.content) < MAX_TURN_CHARS + 200

    def test_without_turns_only_the_edge_is_kept(self):
        writes = capture.delegation(
            "Go", "done", "c", room=room(sync_turns=False), at=NOW
        )
        assert [type(w) for w in writes] == [RecordDelegation]
