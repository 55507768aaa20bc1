from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_pgmemory.contacts import Contact
from hermes_pgmemory.identity import Identity, Policy, Rule, kind_of, resolve
from hermes_pgmemory.key_text import MAX_THEME_CHARS, fold, shorten, tidy
from hermes_pgmemory.models import AgentKind, Theme
from hermes_pgmemory.session_keys import PLATFORMS

UNHURRIED = settings(deadline=None)
"""A busy machine is no reason to fail."""

OPEN = Policy(aliases={}, allowed_themes=(), bench_mode="bucket")
KEY = b"k" * 32

ANY_TEXT = st.text(st.characters(), max_size=200)
"""Every code point, lone surrogates included."""


def full_width(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) for char in text)


def who(key: object = None, *, policy: Policy = OPEN, **told: object) -> Identity:
    """Resolve *key* as a header of the API server, or what else is told."""
    claims: dict[str, Any] = {
        "gateway_session_key": key,
        "agent_identity": "default",
        "agent_workspace": "hermes",
        "platform": "api_server",
        "chat_type": None,
        "user_id": None,
        "user_id_alt": None,
        "chat_id": None,
    }
    return resolve(**(claims | told), policy=policy)


def chat(
    platform: str, chat_type: str, key: str | None = None, **told: object
) -> Identity:
    """Resolve a run of the native gateway."""
    return who(key, platform=platform, chat_type=chat_type, **told)


def subject(identity: Identity) -> str:
    assert identity.contact is not None
    return identity.contact.subject(KEY)


class TestTheSourceOfAName:
    def test_the_session_key_comes_before_the_profile(self):
        assert who("marketing", agent_identity="work").theme == "marketing"

    def test_a_named_profile_comes_before_the_workspace(self):
        assert who(None, agent_identity="work").theme == "work"

    def test_an_ordinary_run_without_a_key_belongs_to_the_workspace(self):
        identity = who(None, platform="cli")
        assert identity.theme == "hermes"
        assert identity.rule is Rule.UNCHANGED

    def test_the_default_profile_counts_when_nothing_else_is_given(self):
        assert who(None, agent_workspace=None).theme == "default"

    @pytest.mark.parametrize("nothing", [None, "", "  \t\n", "\u200b", 7, b"x", ["a"]])
    def test_what_is_no_text_or_blank_counts_as_absent(self, nothing):
        assert who(nothing, agent_identity="work").theme == "work"
        identity = who(nothing, agent_identity=nothing, agent_workspace=nothing)
        assert (identity.theme, identity.rule) == ("default", Rule.EMPTY)

    def test_case_space_and_full_width_letters_do_not_make_a_new_theme(self):
        assert who("  Market\u00adING \u00a0 EU ").theme == "marketing eu"
        assert who(full_width("MARKETING")).theme == "marketing"
        assert who("Marketing").rule is Rule.FOLDED
        assert who("\u1d2e\u03d2").theme == "b\u03c5"
        assert tidy("e\u200b\u0301") == "\u00e9"

    def test_percent_encoding_does_not_make_a_new_theme(self):
        assert who("market%69ng%20EU").theme == "marketing eu"
        assert who("M%C3%BCnchen").theme == "münchen"
        assert who("%FC%2dx").theme == "%fc-x"
        assert who("50%25 off").theme == "50% off"

    def test_a_latin_1_header_keeps_its_letters(self):
        assert who("M\udcfcnchen").theme == "münchen"
        assert who("x\ud83cy").theme == "x\ufffdy"
        assert who("\ud83c\udf78bar").theme == "\U0001f378bar"

    def test_two_long_keys_with_one_beginning_stay_apart(self):
        one, two = who("x" * 255 + "a"), who("x" * 255 + "b")
        assert one.theme != two.theme
        assert len(one.theme) == len(two.theme) == MAX_THEME_CHARS
        assert one.theme[-20:].isalpha()


DIRECT = [
    "agent:main:telegram:dm:12345",
    "agent:main:telegram:dm:12345:77",
    "agent:coder:whatsapp:dm:15550100123",
    "agent:main:telegram:dm",
    "agent:main:newplatform:dm:alice",
    "AGENT:Main:Telegram:DM:12345",
    full_width("agent:main:telegram:dm:12345"),
    "agent:main:qqbot:c2c:abc",
    "agent:main:simplex:dm:direct:4",
    "agent:main:matrix:dm:@ann:example.org",
    "agent:main:email:dm:ann@example.org",
    "telegram:dm:12345",
    "telegram:dm:ann",
    "signal:dm:+15550100123",
    "bridge:telegram:dm:12345",
    "dm:ann",
    "sms:+15550100123",
    "sms:12345",
    "whatsapp:15550100123",
    "whatsapp:15550100123@s.whatsapp.net",
    "signal:+15550100123",
    "signal:+1 555 0100",
    "signal:0f9ad2b1-c3d4-4e5f-8a9b-abcdefabcdef",
    "x:signal:0f9ad2b1-c3d4-4e5f-8a9b-abcdefabcdef",
    "telegram:ab12cd34-x9y8z7w6",
    "telegram:@ann_b",
    "telegram:%40ann_b",
    "telegram%3Adm%3A12345",
    "telegram: 12345",
    "telegram : dm : ann",
    "telegram_dm_12345",
    "google_chat_dm_12345",
    "x:telegram-12345",
    "sms 12345",
    "slack:U024BE7LH",
    "slack: U024BE7LH",
    "desk:U024BE7LH",
    "desk_U024BE7LH",
    "u024be7lh",
    "desk:u024be7lh:notes",
    "x:mattermost:9n3cqkb7jtyaufk8d5wmo1xzgr",
    "teams:a:1aBcDeFgHiJkLmNoPqRsTuVwXyZ",
    "agent:main:newchat:private:ann",
    "agent:main:newchat:im:ann",
    "agent:main:newchat:direct:ann",
    "x:telegram:55501",
    "a2a:bot:weather",
    "+15550100123",
    "15550100123",
    "+1 (555) 010-0123",
    "555.010.0123",
    "user-555-010-0123",
    "call/555/010/0123",
    "١٥٥٥٠١٠٠١٢٣",
    "user-፩፪፫፬፭፮፯",
    full_width("15550100123"),
    "1\u200b5\u200b5\u200b5\u200b0\u200b1\u200b0\u200b0",
    "12345",
    "run-2026-13-15",
    "ann@example.org",
    "ann%40example.org",
    "ann%2540example.org",
    full_width("ann%40example.org"),
    "team:ann@example.org",
    "@ann",
    "ask @ann",
    full_width("@ann"),
    "@ann:example.org",
    "29:1abcdefghijklmnopqrstuvwxyz",
    "ou_84aad35d084aa403a838cf73ee18467",
    "U4af4980629d7b1a0b1c2d3e4f5a6b7c8",
    "iMessage;-;ann",
    "U024BE7LH",
    "direct:4",
    "whatsapp-dm",
    "WhatsApp-DM",
]

GROUPS = [
    "agent:main:discord:group:123:456",
    "agent:main:slack:channel:C1H9RESGL",
    "agent:main:discord:thread:9:10",
    "agent:main:telegram:forum:-1001234567890:5",
    "agent:main:line:room:Rabc",
    "agent:main:qqbot:guild:abc:user",
    "agent:main:newplatform:group:abc",
    "agent:main:newplatform:supergroup:abc",
    "agent:main:telegram:unheard-of:abc",
    "agent:main:whatsapp:group:120363000000000000@g.us:15550100123",
    "agent:main:matrix:group:!room:example.org",
    "agent:main:teams:group:19:abc@thread.tacv2",
    "agent:main:google_chat:group:spaces/X/threads/Y",
    "agent:main:simplex:group:group:7",
    "agent:main:webhook:webhook:webhook:demo:deliv-1:webhook:demo",
    "whatsapp:group:120363000000000000:15550100123",
    "x:slack:channel:general",
    "telegram:-1001234567890",
    "telegram_-1001234567890",
    "telegram_group_-100123",
    "desk:C1H9RESGL",
    "irc:#ops",
    "irc:%23ops",
    "matrix:!room:example.org",
    "!room:example.org",
    "#room:example.org",
    "19:abc@thread.tacv2",
    "120363000000000000@g.us",
    "spaces/X/threads/Y",
    "spaces/X",
    "webhook:demo:deliv-1",
    "msgraph:3f2b",
    "oc_84aad35d084aa403a838cf73ee18467",
    "C4af4980629d7b1a0b1c2d3e4f5a6b7c8",
    "C1H9RESGL",
    "iMessage;+;chat",
    "group:7",
    "external-group",
]

THEMES = [
    "marketing",
    "desk:signal:main",
    "signal:main",
    "desk:signal:200",
    "eng:channel:alerts",
    "ops:group:oncall",
    "team:telegram-bot:prod",
    "team:slack-alerts",
    "teams:42",
    "agent:research:eu:daily",
    "agent-hermes",
    "sales:dm",
    "dm",
    "telegram",
    "email",
    "line:one",
    "shift:19:00",
    "docs/signal/main",
    "docs/spaces/one",
    "org/repo",
    "workbench",
    "bench-press",
    "q3 2026 plan",
    "build 12 of 2026",
    "direct:flights",
    "group:ops",
    "webhook:demo",
    "UPPERCASE1",
    "run-2026-01-15",
    "telegram:report-2026-01-15",
    "slack:alerts-2026",
    "slack-alerts-2026",
    "eng:email:migration2026",
    "matrix-group-theory",
    "line-42",
    "signal_group",
    "g7summit2026",
    "desk:w3consortium",
    "c3poproject",
    "build-d41d8cd98f",
    "0f9ad2b1-c3d4-4e5f-8a9b-d1cdefabcdef",
    "agent:research:physics:topic",
    "50% growth",
    "100%",
    "münchen",
    "日本語",
    "v1.2.3",
]


class TestTheKindOfAKey:
    @pytest.mark.parametrize("key", DIRECT)
    def test_a_direct_message_key_lands_in_the_dm_bucket(self, key):
        identity = who(key)
        assert identity.theme == "whatsapp-dm"
        assert identity.rule is Rule.DIRECT_MESSAGE
        assert identity.kind is AgentKind.DM
        assert identity.governed
        assert identity.contact is not None

    @pytest.mark.parametrize("key", GROUPS)
    def test_a_group_key_lands_in_the_group_bucket(self, key):
        identity = who(key)
        assert identity.theme == "external-group"
        assert identity.rule is Rule.GROUP
        assert identity.kind is AgentKind.GROUP
        assert identity.governed
        assert identity.contact is not None

    @pytest.mark.parametrize("key", THEMES)
    @pytest.mark.parametrize("platform", ["cli", "tui", "api_server", None])
    def test_an_ordinary_name_stays_a_theme(self, key, platform):
        identity = who(key, platform=platform)
        assert identity.theme == key.lower()
        assert not identity.governed
        assert identity.contact is None
        assert identity.kind in (AgentKind.THEME, AgentKind.WORKER)

    @pytest.mark.parametrize("platform", sorted(PLATFORMS))
    @pytest.mark.parametrize("chat_type", ["dm", "group", "channel", "thread", "forum"])
    def test_every_platform_is_known_with_and_without_the_hosts_prefix(
        self, platform, chat_type
    ):
        expected = "whatsapp-dm" if chat_type == "dm" else "external-group"
        assert who(f"agent:main:{platform}:{chat_type}:abc").theme == expected
        assert who(f"{platform}:{chat_type}:abc:def").theme == expected

    def test_a_worker_is_told_from_a_theme(self):
        assert kind_of(Theme("agent-hermes")) is AgentKind.WORKER
        assert kind_of(Theme("hermes")) is AgentKind.THEME


class TestWhatTheHostSaysOfAChat:
    @pytest.mark.parametrize("chat_type", ["dm", "c2c", "DM"])
    def test_a_chat_with_one_person_is_direct_whatever_the_key(self, chat_type):
        assert chat("telegram", chat_type, "marketing").theme == "whatsapp-dm"
        assert chat("unheard-of", chat_type, "marketing").theme == "whatsapp-dm"

    @pytest.mark.parametrize(
        "chat_type", ["group", "channel", "thread", "forum", "webhook", "room", "guild"]
    )
    def test_any_other_chat_is_a_group_whatever_the_key(self, chat_type):
        assert chat("telegram", chat_type, "telegram:dm:1").theme == "external-group"

    def test_a_background_task_of_a_chat_has_no_key_and_is_governed_all_the_same(self):
        assert chat("telegram", "dm", None, user_id="5").theme == "whatsapp-dm"

    def test_a_messaging_platform_without_a_chat_type_asks_the_key(self):
        assert who("x", platform="telegram").theme == "whatsapp-dm"
        key = "agent:main:telegram:group:5"
        assert who(key, platform="telegram").theme == "external-group"


class TestSubjects:
    def test_one_person_is_one_subject_in_all_their_threads(self):
        one = chat("telegram", "dm", "agent:main:telegram:dm:5:1", user_id="5")
        two = chat("telegram", "dm", "agent:main:telegram:dm:5:2", user_id="5")
        assert subject(one) == subject(two)

    def test_the_alternative_id_names_a_person_better(self):
        one = chat("signal", "dm", user_id="+15550100", user_id_alt="uuid-1")
        two = chat("signal", "dm", user_id="+15550101", user_id_alt="uuid-1")
        assert subject(one) == subject(two)

    def test_two_persons_of_one_bucket_are_two_subjects(self):
        people = [
            chat("telegram", "dm", user_id="5"),
            chat("telegram", "dm", user_id="6"),
            chat("signal", "dm", user_id="5"),
            chat("telegram", "dm", chat_id="5"),
            chat("telegram", "dm", user_id=7),
            who("agent:main:telegram:dm:5"),
            who("agent:main:telegram:dm:5:2"),
            who("telegram:dm:5"),
        ]
        assert len({subject(person) for person in people}) == len(people)

    def test_a_whatsapp_person_keeps_one_subject_when_the_bridge_flips_their_id(self):
        key = "agent:main:whatsapp:dm:15550100123"
        one = chat("whatsapp", "dm", key, user_id="15550100123@s.whatsapp.net")
        two = chat("whatsapp", "dm", key, user_id="987@lid")
        other_profile = chat("whatsapp", "dm", key.replace("main", "work"))
        assert subject(one) == subject(two) == subject(other_profile)

    def test_a_group_is_one_subject_whoever_speaks(self):
        one = chat("discord", "group", "k:a", chat_id="9", user_id="1")
        two = chat("discord", "thread", "k:b", chat_id="9", user_id="2")
        other = chat("discord", "group", "k:a", chat_id="8", user_id="1")
        assert subject(one) == subject(two) != subject(other)

    def test_the_deliveries_of_one_webhook_route_are_one_subject(self):
        one = chat("webhook", "webhook", chat_id="webhook:a:1", user_id="webhook:a")
        two = chat("webhook", "webhook", chat_id="webhook:a:2", user_id="webhook:a")
        other = chat("webhook", "webhook", chat_id="webhook:b:1", user_id="webhook:b")
        assert subject(one) == subject(two) != subject(other)

    def test_a_bridges_own_user_id_does_not_merge_its_peers(self):
        one = chat("raft", "dm", chat_id="s1", user_id="raft-bridge")
        two = chat("raft", "dm", chat_id="s2", user_id="raft-bridge")
        assert subject(one) != subject(two)

    def test_an_api_client_cannot_take_a_native_chats_place(self):
        key = "agent:main:whatsapp:dm:15550100123"
        native = chat("whatsapp", "dm", key, user_id="15550100123")
        spoofed = who(key, user_id="15550100123")
        assert native.theme == spoofed.theme
        assert subject(native) != subject(spoofed)

    def test_a_subject_is_32_hex_digits_and_depends_on_the_key(self):
        contact = who("telegram:dm:5").contact
        assert contact is not None
        assert re.fullmatch("[0-9a-f]{32}", contact.subject(KEY))
        assert contact.subject(KEY) == contact.subject(KEY)
        assert len({contact.subject(bytes([n]) * 100) for n in range(5)}) == 5

    def test_a_key_too_short_to_hide_anything_is_refused(self):
        with pytest.raises(ValueError, match="16 bytes"):
            Contact("a").subject(b"short")

    def test_a_contact_with_broken_characters_has_a_subject(self):
        assert subject(chat("irc", "dm", user_id="\udcc4"))

    def test_benchmarks_and_themes_have_no_subject(self):
        assert who("skill-bench").contact is None
        assert who("marketing").contact is None


class TestAContactIsNeverShown:
    SECRET = "+15550100123"

    def test_no_form_of_text_shows_it(self):
        identity = chat("sms", "dm", f"agent:main:sms:dm:{self.SECRET}")
        contact = identity.contact
        shown = f"{identity} {identity!r} {contact} {contact!r} {contact:>40} %s" % (
            contact,
        )
        shown += str(dataclasses.asdict(identity))
        assert "5550100" not in shown

    def test_it_cannot_be_pickled(self):
        with pytest.raises(TypeError):
            pickle.dumps(Contact(self.SECRET))

    def test_copies_are_the_same_contact(self):
        contact = Contact(self.SECRET)
        assert copy.copy(contact) is copy.deepcopy(contact) is contact
        assert contact == Contact(self.SECRET)
        assert contact != Contact("other")
        assert contact != self.SECRET
        assert len({contact, Contact(self.SECRET)}) == 1


class TestAliases:
    def test_an_alias_renames_whatever_the_case(self):
        policy = dataclasses.replace(OPEN, aliases={"Agent-Hermes": "Hermes"})
        identity = who("agent-HERMES", policy=policy)
        assert (identity.theme, identity.rule) == ("hermes", Rule.ALIAS)

    def test_an_alias_of_a_chats_own_key_takes_it_out_of_the_bucket(self):
        key = "agent:main:telegram:dm:12345"
        policy = dataclasses.replace(OPEN, aliases={key: "boss"})
        identity = chat("telegram", "dm", key, user_id="5", policy=policy)
        assert (identity.theme, identity.governed) == ("boss", False)

    def test_an_alias_of_the_workspace_does_not_open_the_bucket(self):
        policy = dataclasses.replace(OPEN, aliases={"hermes": "main"})
        assert chat("telegram", "dm", user_id="5", policy=policy).governed
        assert who(None, policy=policy).theme == "main"

    def test_a_target_still_meets_the_other_rules(self):
        policy = dataclasses.replace(
            OPEN, aliases={"a": "sms:+15550100123", "b": "x-bench", "c": " "}
        )
        assert who("a", policy=policy).theme == "whatsapp-dm"
        assert who("b", policy=policy).theme == "_bench"
        assert who("c", policy=policy).theme == "default"

    def test_a_chain_is_followed_and_a_circle_ends(self):
        policy = dataclasses.replace(
            OPEN, aliases={"a": "b", "b": "c", "x": "z", "y": "x", "z": "y"}
        )
        assert who("a", policy=policy).theme == "c"
        assert {who(name, policy=policy).theme for name in "xyz"} == {"x"}

    def test_a_bucket_cannot_be_renamed(self):
        policy = dataclasses.replace(
            OPEN, aliases={"whatsapp-dm": "open", "_bench": "open", "default": "open"}
        )
        for name in ("whatsapp-dm", "_bench", "default"):
            identity = who(name, policy=policy)
            assert identity.theme == name
            assert identity.rule is not Rule.ALIAS


class TestBenchmarks:
    @pytest.mark.parametrize(
        "name",
        [
            *("bench", "BENCH", "skill-bench", "skill-bench-ws", "skill-benchmark"),
            *("x-bench", "a-b-bench", "x-bench-ws", "bench-ws", "_bench"),
        ],
    )
    def test_a_benchmark_goes_to_its_bucket_or_to_default(self, name):
        identity = who(name)
        assert (identity.theme, identity.kind) == ("_bench", AgentKind.BENCH)
        assert identity.governed
        rejected = who(name, policy=dataclasses.replace(OPEN, bench_mode="reject"))
        assert (rejected.theme, rejected.rule) == ("default", Rule.BENCH_REJECTED)


class TestTheAllowList:
    POLICY = dataclasses.replace(OPEN, allowed_themes=["Marketing", " ops "])

    def test_the_allowed_pass_and_strangers_become_default(self):
        assert who("MARKETING", policy=self.POLICY).theme == "marketing"
        assert who("ops", policy=self.POLICY).theme == "ops"
        stranger = who("marketting", policy=self.POLICY)
        assert (stranger.theme, stranger.rule) == ("default", Rule.NOT_ALLOWED)

    def test_blank_entries_forbid_nothing(self):
        policy = dataclasses.replace(OPEN, allowed_themes=["", " "])
        assert who("ops", policy=policy).theme == "ops"

    def test_buckets_need_no_permission(self):
        for key in ("sms:+15550100123", "!room:example.org", "x-bench", "default"):
            assert who(key, policy=self.POLICY).rule is not Rule.NOT_ALLOWED

    def test_the_label_hints_at_a_stranger_without_showing_it(self):
        label = who("ann nobody", policy=self.POLICY).safe_label
        assert label == "'an…' (10 characters)"
        assert who("ann", policy=self.POLICY).safe_label == "'…' (3 characters)"

    def test_the_label_of_all_others_is_the_theme(self):
        assert who("sms:+15550100123", policy=self.POLICY).safe_label == "whatsapp-dm"
        assert who("ops", policy=self.POLICY).safe_label == "ops"


FIELD = st.one_of(
    st.sampled_from(sorted(PLATFORMS)),
    st.sampled_from(["agent", "main", "dm", "group", "channel", "bot", "bench", "~"]),
    st.from_regex(r"[a-z]{1,6}-?[0-9]{0,9}", fullmatch=True),
    st.text(st.characters(), max_size=12),
    st.text("0123456789 ()+-.@!#", max_size=14),
)
KEYS = st.one_of(
    ANY_TEXT,
    st.lists(FIELD, min_size=1, max_size=9).map(":".join),
    st.lists(FIELD, min_size=20, max_size=60).map(":".join),
    st.sampled_from([*DIRECT, *GROUPS, *THEMES]),
)
POLICIES = st.builds(
    Policy,
    aliases=st.dictionaries(FIELD, FIELD, max_size=6),
    allowed_themes=st.one_of(st.just(()), st.lists(FIELD, max_size=5)),
    bench_mode=st.sampled_from(["bucket", "reject"]),
)


DATE = re.compile(r"(?<!\d)(19|20)\d\d-(0[1-9]|1[0-2])-([0-2]\d|3[01])(?!\d)")


class TestForEveryKey:
    @UNHURRIED
    @given(KEYS, POLICIES)
    def test_resolving_a_theme_again_changes_nothing(self, key, policy):
        theme = who(key, policy=policy, agent_workspace=None).theme
        assert who(theme, policy=policy).theme == theme

    @UNHURRIED
    @given(KEYS, POLICIES)
    def test_no_number_address_or_handle_survives(self, key, policy):
        identity = who(key, policy=policy)
        for shown in (identity.theme, identity.safe_label, repr(identity)):
            # A date is no number.
            dateless = DATE.sub("date", unicodedata.normalize("NFKC", shown))
            bare = "".join(
                char for char in dateless if char.isalpha() or char.isdigit()
            )
            assert not re.search(r"\d{7}", bare)
            assert "@" not in shown

    @UNHURRIED
    @given(KEYS)
    def test_a_theme_is_short_printable_utf_8(self, key):
        theme = who(key).theme
        assert 0 < len(theme) <= MAX_THEME_CHARS
        assert theme.isprintable()
        assert theme == theme.strip()
        assert theme.encode("utf-8")

    @UNHURRIED
    @given(st.tuples(*[st.one_of(FIELD, ANY_TEXT, st.none(), st.integers())] * 8))
    def test_whatever_the_host_passes_there_is_an_identity(self, values):
        names = (
            *("gateway_session_key", "agent_identity", "agent_workspace", "platform"),
            *("chat_type", "user_id", "user_id_alt", "chat_id"),
        )
        claims: dict[str, Any] = dict(zip(names, values, strict=True))
        identity = resolve(**claims, policy=OPEN)
        assert identity.governed == (
            identity.theme in ("whatsapp-dm", "external-group", "_bench")
        )
        assert (identity.contact is not None) == (
            identity.theme in ("whatsapp-dm", "external-group")
        )

    @UNHURRIED
    @given(st.sampled_from(sorted(PLATFORMS)), FIELD, st.lists(FIELD, max_size=4))
    def test_no_part_of_a_chats_key_survives(self, platform, chat_type, ids):
        key = ":".join(["agent", "main", platform, chat_type, *ids])
        assert who(key).theme in ("whatsapp-dm", "external-group")

    @UNHURRIED
    @given(ANY_TEXT)
    def test_folding_and_shortening_twice_change_nothing(self, text):
        folded = fold(text)
        assert fold(folded) == folded
        assert fold(shorten(folded)) == shorten(folded)
