"""What a model may ask of the recall tools, and what each caller may see."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.models import ANY, Role, Scope, Subject, Target, Theme
from hermes_pgmemory.tools import TOOL_SCHEMAS, Caller, EntryRequest, TurnRequest

ANNA = Subject("a" * 32)


def caller(theme="marketing", *, subject=None, governed=False, cross=False):
    return Caller(
        theme=Theme(theme),
        subject=subject,
        governed=governed,
        session_id="s1",
        scope_default="current",
        cross_theme_recall=cross,
        theme_named=lambda name: Theme(name.strip().casefold()),
    )


PRIVATE = caller("whatsapp-dm", subject=ANNA, governed=True)


def entries(who=None, **args):
    return EntryRequest.parse({"query": "colours", **args}, who or caller())


class TestScope:
    def test_is_the_callers_own_theme_unless_asked(self):
        assert entries().scope == Scope(theme=Theme("marketing"), subject=None)

    def test_all_themes_still_hide_what_belongs_to_a_contact(self):
        assert entries(scope="all").scope == Scope(
            theme=None, subject=None, include_shared=True
        )

    def test_another_theme_is_named_as_identities_are(self):
        assert entries(scope=" Sales ").scope.theme == "sales"

    def test_a_private_chat_sees_only_its_own_rows(self):
        assert entries(PRIVATE).scope == Scope(theme=Theme("whatsapp-dm"), subject=ANNA)

    @pytest.mark.parametrize("scope", ["all", "marketing", "external-group"])
    def test_a_private_chat_is_refused_elsewhere(self, scope):
        with pytest.raises(BadRequest, match="only their own"):
            entries(PRIVATE, scope=scope)

    def test_unless_the_operator_allows_it(self):
        who = caller("whatsapp-dm", subject=ANNA, governed=True, cross=True)
        assert entries(who, scope="all").scope == Scope(
            theme=None, subject=ANNA, include_shared=True
        )

    def test_a_theme_cannot_ask_for_the_private_rows_of_a_bucket(self):
        scope = entries(scope="whatsapp-dm").scope
        assert scope.subject is None

    def test_naming_ones_own_bucket_is_not_a_way_around(self):
        assert entries(PRIVATE, scope="whatsapp-dm").scope == Scope(
            theme=Theme("whatsapp-dm"), subject=ANNA
        )

    def test_a_session_is_a_scope_of_conversations_only(self):
        request = TurnRequest.parse({"query": "x", "scope": "session"}, caller())
        assert (request.session_id, request.scope.theme) == ("s1", "marketing")


class TestArguments:
    @pytest.mark.parametrize(
        ("limit", "meant"),
        [(None, 5), ("", 5), (7, 7), ("8", 8), (7.9, 7), (0, 1), (-3, 1), (1e9, 20)],
    )
    def test_a_limit_is_brought_into_range(self, limit, meant):
        assert entries(limit=limit).limit == meant

    @pytest.mark.parametrize("limit", ["many", [], {}, True, float("nan")])
    def test_a_limit_that_is_no_number_is_named(self, limit):
        with pytest.raises(BadRequest, match="limit must be a whole number"):
            entries(limit=limit)

    @pytest.mark.parametrize("query", [None, "", "  \n", 7, ["x"]])
    def test_a_query_must_say_something(self, query):
        with pytest.raises(BadRequest, match="query"):
            EntryRequest.parse({"query": query}, caller())

    @pytest.mark.parametrize(
        ("target", "meant"),
        [
            (None, None),
            ("both", None),
            ("memory", Target.MEMORY),
            ("user", Target.USER),
        ],
    )
    def test_targets(self, target, meant):
        assert entries(target=target).target == meant

    @pytest.mark.parametrize("target", ["diary", 3, ["memory"], {}])
    def test_another_target_is_refused(self, target):
        with pytest.raises(BadRequest, match="target"):
            entries(target=target)

    @given(
        st.dictionaries(
            st.sampled_from(
                [
                    *("query", "scope", "target", "limit", "more"),
                    *("since", "until", "platform", "role"),
                ]
            ),
            st.recursive(
                st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
                lambda inner: (
                    st.lists(inner, max_size=2)
                    | st.dictionaries(st.text(), inner, max_size=2)
                ),
                max_leaves=4,
            ),
        )
    )
    def test_any_arguments_are_checked_or_refused(self, args):
        for kind in (EntryRequest, TurnRequest):
            try:
                request = kind.parse(args, PRIVATE)
            except BadRequest:
                continue
            assert request.scope == Scope(theme=Theme("whatsapp-dm"), subject=ANNA)
            assert 1 <= request.limit <= 20


def turns(**args):
    return TurnRequest.parse({"query": "colours", **args}, caller())


class TestFacets:
    @pytest.mark.parametrize("absent", [None, ""])
    def test_what_is_not_given_narrows_nothing(self, absent):
        names = ("since", "until", "platform", "role")
        assert entries().facets == entries(**dict.fromkeys(names, absent)).facets == ANY
        assert turns().facets == turns(**dict.fromkeys(names, absent)).facets == ANY

    def test_a_period_counts_from_its_start_to_its_end(self):
        facets = entries(since="2026-05", until="2026-05").facets
        assert facets.since == datetime(2026, 5, 1, tzinfo=UTC)
        assert facets.until == datetime(2026, 6, 1, tzinfo=UTC)

    def test_since_may_not_be_later_than_until(self):
        with pytest.raises(BadRequest, match="since must not be later than until"):
            entries(since="2026-06", until="2026-05")

    @pytest.mark.parametrize(
        "moment", ["yesterday", "last week", "5/3/2026", "2026-13", 20260503, [], True]
    )
    @pytest.mark.parametrize("name", ["since", "until"])
    def test_what_is_no_time_is_named_with_what_would_be(self, name, moment):
        with pytest.raises(BadRequest, match=f"^{name} must be a date .* 2026-05-03"):
            turns(**{name: moment})

    def test_a_platform_is_a_name(self):
        assert entries(platform=" Telegram\x00 ").facets.platform == "Telegram"
        assert entries(platform=" ").facets.platform is None
        with pytest.raises(BadRequest, match="platform must be a name"):
            entries(platform=["cli"])

    def test_a_role_is_one_of_those_who_speak(self):
        assert turns(role="assistant").facets.role is Role.ASSISTANT
        for role in ("me", 7, ["user"], {}):
            with pytest.raises(BadRequest, match="role must be one of 'user'"):
                turns(role=role)

    def test_entries_were_said_by_nobody(self):
        assert entries(role="user").facets.role is None

    def test_the_schemas_offer_them(self):
        offered = [set(schema["parameters"]["properties"]) for schema in TOOL_SCHEMAS]
        assert all({"since", "until", "platform"} <= names for names in offered)
        assert ["role" in names for names in offered] == [False, True]


def test_the_schemas_name_the_bounds_that_are_checked():
    for schema in TOOL_SCHEMAS:
        limit = schema["parameters"]["properties"]["limit"]
        assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 20, 5)
