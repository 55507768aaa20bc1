"""What narrows a search, what fades, what is told twice, and what was said around."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from hermes_pgmemory.models import Facets, Role, Scope, Subject, Theme

WORK, HOME = Theme("work"), Theme("home")
ALICE, BOB = Subject("a" * 32), Subject("b" * 32)
MAY = datetime(2026, 5, 1, tzinfo=UTC)


def day(n):
    return MAY + timedelta(days=n)


@pytest.fixture(params=["entries", "turns"])
def table(request, memory, contents_of):
    """The same search over both tables; every turn is a session of its own."""

    def lone_turn(text, **more):
        return memory.turn(text, **({"session_id": uuid4().hex} | more))

    class Table:
        find_hits = staticmethod(getattr(memory, request.param))
        build = staticmethod({"entries": memory.add, "turns": lone_turn}[request.param])

        def put(self, *texts, vectors=None, **more):
            writes = [self.build(text, **more) for text in texts]
            memory.apply(*writes, vectors=dict(enumerate(vectors or [])))

        def find(self, text="", **more):
            return contents_of(self.find_hits(text, **more))

    return Table()


class TestTime:
    @pytest.mark.parametrize(
        ("facets", "seen"),
        [
            (Facets(), [0, 1, 2, 3]),
            (Facets(since=day(1)), [1, 2, 3]),
            (Facets(until=day(2)), [0, 1]),
            (Facets(since=day(1), until=day(2)), [1]),
            (Facets(since=day(9)), []),
        ],
        ids=["any", "since", "until", "between", "never"],
    )
    def test_a_period_has_its_start_and_not_its_end(self, table, facets, seen):
        for n in range(4):
            table.put(f"tea {n}", at=day(n), vectors=[[1, 0, 0]])
        for more in ({}, {"vector": [1, 0, 0]}):
            assert table.find("tea", facets=facets, **more) == [
                f"tea {n}" for n in seen
            ]

    def test_an_entry_is_of_the_day_it_was_last_changed(self, memory, contents_of):
        memory.apply(memory.add("tea at four", at=day(0)))
        memory.apply(memory.replace("four", "tea at five", at=day(5)))
        find = lambda **facets: contents_of(  # noqa: E731
            memory.entries("tea", facets=Facets(**facets))
        )
        assert find(since=day(5)) == ["tea at five"]
        assert find(until=day(5)) == []


class TestPlatform:
    def test_confines_in_any_case(self, table):
        table.put("tea t", metadata={"platform": "Telegram"})
        table.put("tea c", metadata={"platform": "cli"})
        table.put("tea x")
        assert table.find("tea", facets=Facets(platform="telegram")) == ["tea t"]
        assert table.find("tea", facets=Facets(platform="CLI")) == ["tea c"]
        assert table.find("tea", facets=Facets(platform="tele%")) == []

    def test_is_told(self, table):
        table.put("tea t", metadata={"platform": "telegram"})
        table.put("tea x")
        assert [hit.platform for hit in table.find_hits("tea")] == ["telegram", None]


def test_a_role_confines_turns(memory, contents_of):
    memory.apply(memory.turn("my tea?"), memory.turn("tea!", role=Role.ASSISTANT))
    find = lambda role: contents_of(memory.turns("tea", facets=Facets(role=role)))  # noqa: E731
    assert find(Role.ASSISTANT) == ["tea!"]
    assert find(Role.TOOL) == []
    assert len(find(None)) == 2


@pytest.mark.parametrize(
    "facets",
    [
        Facets(since=day(1)),
        Facets(until=day(1)),
        Facets(platform="cli"),
        Facets(since=day(1), platform="cli"),
    ],
    ids=["since", "until", "platform", "both"],
)
def test_no_facet_makes_an_answer_short(table, facets):
    # The nearest hundred are ruled out, and more of them than a ranking holds.
    out = day(2) if facets.until else day(0)
    inside = day(0) if facets.until else day(2)
    near = [[1, n / 1000, 0] for n in range(100)]
    table.put(*(f"tea near {n}" for n in range(100)), at=out, vectors=near)
    far = [[1, 1 + n, 0] for n in range(6)]
    more = {"at": inside, "metadata": {"platform": "cli"}}
    table.put(*(f"tea far {n}" for n in range(6)), vectors=far, **more)
    for vector in (None, [1, 0, 0]):
        found = table.find("tea", vector=vector, facets=facets, limit=5)
        assert found == [f"tea far {n}" for n in range(5)]


class TestDecay:
    def test_of_equals_the_newer_ranks_higher(self, table):
        for n in (0, 40, 20):
            table.put(f"tea {n}", at=day(n), vectors=[[1, 0, 0]])
        assert table.find("tea", half_life_days=10) == ["tea 40", "tea 20", "tea 0"]
        assert table.find("tea") == ["tea 0", "tea 40", "tea 20"]

    def test_relevance_is_left_alone(self, table):
        for n in (0, 40):
            table.put(f"tea {n}", at=day(n), vectors=[[1, 0.5, 0]])
        told = [
            {
                hit.content: (hit.relevance, hit.similarity)
                for hit in table.find_hits("tea", vector=[1, 0, 0], half_life_days=days)
            }
            for days in (0, 1)
        ]
        assert told[0] == told[1]

    def test_a_hit_tells_what_its_score_was_made_of(self, table):
        for n in (0, 40):
            table.put(f"tea {n}", at=day(n), vectors=[[1, 0.5, 0]])
        hits = table.find_hits("tea cake", vector=[1, 0, 0], half_life_days=40)
        assert [round(hit.why.kept, 6) for hit in hits] == [1, 0.5]
        for hit in hits:
            why = hit.why
            assert 0 < why.words < 1
            assert 0 < why.nearness < 1
            assert min(why.words, why.nearness) < why.alone
            assert why.alone < max(why.words, why.nearness)
            assert why.in_context == pytest.approx(why.alone)
            assert hit.score == pytest.approx(why.in_context * why.kept)

    def test_a_much_better_old_row_still_wins(self, table):
        table.put("tea hedgehog", at=day(0))
        table.put("tea", *(f"other {n}" for n in range(9)), at=day(5))
        assert table.find("tea hedgehog", half_life_days=30)[0] == "tea hedgehog"


class TestRepetition:
    def test_is_told_once_and_makes_room_for_the_next_best(self, table):
        same = ["The printer is in room 12", "the printer: is in room 12!"]
        others = [f"The printer is in room {n}" for n in (13, 14, 15)]
        table.put(*same, *others, vectors=[[1, n / 9, 0] for n in range(5)])
        for more in ({}, {"vector": [1, 0, 0]}):
            found = table.find("the printer is in room 12", limit=4, **more)
            assert len(found) == 4
            assert sorted(found[1:]) == others
            assert found[0] in same

    def test_of_many_never_makes_an_answer_short(self, table):
        table.put(*(f"{'*' * n} tea is ready" for n in range(40)), "tea is not ready")
        found = table.find("is tea ready?", limit=2)
        assert found == [" tea is ready", "tea is not ready"]


class TestAround:
    """A recalled turn comes with the beginning of what was said beside it."""

    def around(self, memory, text, **more):
        (hit,) = [hit for hit in memory.turns(text, **more) if hit.content == text]
        return tuple(
            turn and (turn.role.value, turn.content) for turn in (hit.before, hit.after)
        )

    def test_is_one_turn_before_and_one_after(self, memory):
        texts = ["alpha", "beta", "gamma", "delta"]
        roles = [Role.USER, Role.ASSISTANT] * 2
        memory.apply(
            *(memory.turn(t, role=r) for t, r in zip(texts, roles, strict=True))
        )
        assert self.around(memory, "beta") == (("user", "alpha"), ("user", "gamma"))
        assert self.around(memory, "alpha") == (None, ("assistant", "beta"))
        assert self.around(memory, "delta") == (("user", "gamma"), None)

    def test_is_bounded(self, memory):
        memory.apply(memory.turn("long " * 200), memory.turn("beta"))
        ((_, content), _) = self.around(memory, "beta")
        assert len(content) <= 300
        assert content.endswith("…")

    def test_is_shown_though_a_facet_confines_the_search(self, memory):
        memory.apply(
            memory.turn("alpha", at=day(0)),
            memory.turn("beta", role=Role.ASSISTANT, at=day(1)),
        )
        facets = Facets(role=Role.ASSISTANT, since=day(1))
        assert self.around(memory, "beta", facets=facets) == (("user", "alpha"), None)

    @pytest.mark.parametrize(
        "other",
        [{"session_id": "s2"}, {"theme": HOME}, {"subject": BOB}, {"subject": None}],
        ids=str,
    )
    @pytest.mark.parametrize("shared", [False, True])
    def test_is_of_the_same_session_and_subject_alone(self, memory, other, shared):
        own = {"theme": WORK, "session_id": "s1", "subject": ALICE}
        memory.apply(
            memory.turn("not yours 1", **(own | other)),
            memory.turn("beta", **own),
            memory.turn("not yours 2", **(own | other)),
        )
        for theme in (WORK, None):
            scope = Scope(theme=theme, subject=ALICE, include_shared=shared)
            assert self.around(memory, "beta", scope=scope) == (None, None)

    def test_turns_of_one_moment_stand_on_either_side_once(self, memory):
        memory.apply(
            *(memory.turn(text, at=MAY) for text in ("alpha", "beta", "gamma"))
        )
        assert self.around(memory, "beta") == (("user", "alpha"), ("user", "gamma"))
