from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from math import log, sqrt
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_pgmemory.errors import BadRequest, DimensionMismatch
from hermes_pgmemory.models import Scope, Subject, Target, Theme
from hermes_pgmemory.ranking import Scale

WORK, HOME = Theme("work"), Theme("home")
ALICE, BOB = Subject("a" * 32), Subject("b" * 32)
QUESTION = "What did Caroline research about adoption agencies last week?"
SYNTAX = [
    "What's your password policies?",
    "John Doe <john@x.com>",
    "team:foobar",
    "'\":*",
    '"unclosed',
    "a | b & !c",
    "<-> <2> ( )",
    "back\\slash \\' \\\\",
    "it''s",
    "%s %(x)s %",
    "https://example.com/a/b?c=d&e=f",
    "🦔",
    ":* !! && ||",
    "\ud83c",
    "nul \x00 byte",
]


@pytest.fixture(params=["entries", "turns"])
def table(request, memory, contents_of):
    """The same search over both tables: put texts, find texts.

    Every turn is a session of its own, so that no neighbour adds to its score.
    """

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


class TestByWords:
    def test_finds_a_row_with_some_of_the_words(self, table):
        table.put("Caroline began to research adoption agencies", "the weather")
        assert table.find(QUESTION) == ["Caroline began to research adoption agencies"]

    def test_a_rare_word_says_more_than_a_common_one(self, table):
        table.put(*(f"project meeting {n}" for n in range(20)), "hedgehog seen today")
        assert table.find("project meeting hedgehog")[0] == "hedgehog seen today"

    def test_more_of_the_words_is_better(self, table):
        table.put("red", "red green", "red green blue", "none")
        assert table.find("blue green red") == ["red green blue", "red green", "red"]

    def test_ties_break_by_id(self, table):
        table.put("tea 1", "tea 2", "tea 3")
        assert table.find("tea") == ["tea 1", "tea 2", "tea 3"]

    @pytest.mark.parametrize("text", ["", " ", "\n", "...", "zzz"])
    def test_finds_nothing_for_nothing(self, table, text):
        table.put("some text")
        assert table.find(text) == []

    def test_a_minus_excludes_nothing_and_matches_nothing_else(self, table):
        table.put("about foo", "about bar")
        assert table.find("-foo") == ["about foo"]
        assert table.find("!foo") == ["about foo"]

    def test_no_syntax_is_an_error(self, table):
        table.put("plain text", "it's a | b & c: 'quoted' back\\slash %s", "a@b.com")
        assert table.find("nul\0plain \udc97 text") == ["plain text"]
        for text in SYNTAX:
            table.find(text)

    def test_quoted_words_are_found(self, table):
        link = "https://example.com/it's?q='a'"
        table.put("o'brien", "a\\b", "mail john@x.com", f"see {link}")
        assert table.find(link) == [f"see {link}"]
        assert table.find("o'brien") == ["o'brien"]
        assert table.find("a\\b") == ["a\\b"]
        assert table.find("'john@x.com'") == ["mail john@x.com"]

    def test_finds_a_row_before_it_is_embedded(self, table):
        table.put("embedded", vectors=[[1, 0, 0]])
        table.put("hedgehog")
        assert "hedgehog" in table.find("hedgehog", vector=[1, 0, 0])


class TestByMeaning:
    def test_ranks_by_cosine_similarity(self, table):
        table.put("x", "y", "xy", vectors=[[1, 0, 0], [0, 1, 0], [2, 2, 0]])
        hits = table.find_hits("", vector=[1, 0, 0])
        assert [hit.content for hit in hits] == ["x", "xy", "y"]
        assert [hit.similarity for hit in hits] == pytest.approx(
            [1, 1 / sqrt(2), 0], abs=1e-3
        )

    def test_ignores_the_vectors_of_other_models(self, table, memory, store_on, dsn):
        # More than are ranked, so that they would crowd the others out.
        table.put(*(f"old {n}" for n in range(60)), vectors=[[1, 0, 0]] * 60)
        memory.query(
            "INSERT INTO memory_models (name, dimension) VALUES ('other', 3);"
            "UPDATE memory_settings SET value = '2' WHERE key = 'active_model_id'"
        )
        memory.store = store_on(dsn, model="other")
        table.put("new model", vectors=[[0, 1, 0]])
        assert table.find("", vector=[1, 0, 0]) == ["new model"]
        (hit,) = table.find_hits("old 7", vector=[1, 0, 0])[:1]
        assert (hit.content, hit.similarity) == ("old 7", None)

    def test_refuses_a_vector_of_another_length(self, table):
        table.put("x", vectors=[[1, 0, 0]])
        with pytest.raises(DimensionMismatch) as mismatch:
            table.find("", vector=[1, 0, 0, 0])
        assert (mismatch.value.expected, mismatch.value.got) == (3, 4)

    def test_a_vector_without_direction_is_never_near(self, table):
        table.put("zero", "x", vectors=[[0, 0, 0], [1, 0, 0]])
        assert table.find("", vector=[1, 0, 0]) == ["x"]
        (hit,) = table.find_hits("zero", vector=[1, 0, 0])[:1]
        assert (hit.content, hit.similarity) == ("zero", None)

    @pytest.mark.parametrize("value", [float("nan"), 1e9])
    def test_refuses_a_vector_that_is_none(self, table, value):
        with pytest.raises(BadRequest):
            table.find("", vector=[value, 0, 0])


class TestBoth:
    def test_agreement_wins(self, table):
        table.put(
            "tea far", "cup near", "tea near", vectors=[[0, 1, 0], [9, 1, 0], [9, 2, 0]]
        )
        assert table.find("tea", vector=[1, 0, 0])[0] == "tea near"

    def test_similarity_is_told_however_a_row_was_found(self, table):
        near = [[1.0, n / 1000, 0] for n in range(100)]
        table.put(*(f"near {n}" for n in range(100)), vectors=near)
        table.put("hedgehog", vectors=[[0, 1, 0]])
        hits = table.find_hits("hedgehog", vector=[1, 0, 0], limit=20)
        found = {hit.content: hit.similarity for hit in hits}
        assert found["hedgehog"] == pytest.approx(0, abs=1e-3)
        assert found["near 0"] == pytest.approx(1)

    def test_without_vectors_there_is_no_similarity(self, table):
        table.put("tea", vectors=[[1, 0, 0]])
        assert [hit.similarity for hit in table.find_hits("tea")] == [None]

    def test_scores_fall_from_one(self, table):
        table.put("tea", "tea cup", "cup", vectors=[[1, 0, 0], [1, 1, 0], [0, 1, 0]])
        scores = [hit.score for hit in table.find_hits("tea", vector=[1, 0, 0])]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert scores[0] == 1


class TestRelevance:
    """Whether a hit answers at all, which is more than being the best there is."""

    E5 = Scale(floor=0.75, ceiling=0.90)

    def relevances(self, table, text="", cosine=0.84, **more):
        aslant = [cosine, sqrt(1 - cosine**2), 0]
        hits = table.find_hits(text, vector=aslant, scale=self.E5, **more)
        return {hit.content: hit.relevance for hit in hits}

    def test_a_lone_row_is_judged_by_the_models_floor(self, table):
        table.put("x", vectors=[[1, 0, 0]])
        # The row itself is the sample: (0.84 + 4 * 0.75) / 5 is unrelated.
        nearness = (0.84 - 0.768) / (0.90 - 0.768)
        expected = nearness - 0.035 * log(1 / 100)
        assert self.relevances(table)["x"] == pytest.approx(expected, abs=2e-3)

    def test_a_question_near_to_everything_makes_nothing_relevant(self, table):
        table.put(*(f"x {n}" for n in range(50)), vectors=[[1, 0, 0]] * 50)
        alike = self.relevances(table)["x 0"]
        table.put(*(f"y {n}" for n in range(50)), vectors=[[1, 0, 0.75]] * 50)
        assert alike < self.relevances(table)["x 0"] - 0.2

    def test_words_in_common_make_it_surer(self, table):
        table.put("tea", "cup", vectors=[[1, 0, 0]] * 2)
        found = self.relevances(table, "tea", cosine=0.78)
        assert found["tea"] > found["cup"]

    def test_among_more_rows_the_same_row_is_less_sure(self, table):
        table.put("x", *(f"y {n}" for n in range(9)), vectors=[[1, 0, 0]] * 10)
        few = self.relevances(table)["x"]
        table.put(*(f"z {n}" for n in range(190)), vectors=[[1, 0, 0]] * 190)
        assert self.relevances(table)["x"] < few

    def test_words_alone_count_where_there_is_no_vector(self, table):
        table.put("the hedgehog sleeps")
        (hit,) = table.find_hits("hedgehog")
        assert hit.relevance == 1

    @given(cosine=st.floats(-1, 1), rows=st.integers(1, 5), floor=st.floats(0, 0.99))
    @settings(
        max_examples=25,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    def test_it_stays_in_range(self, memory, cosine, rows, floor):
        theme = Theme(uuid4().hex)
        memory.apply(
            *(memory.add(f"tea {n}", theme=theme) for n in range(rows)),
            vectors={n: [1, n / 4, 0] for n in range(rows)},
        )
        hits = memory.entries(
            "tea",
            vector=[cosine, sqrt(max(0, 1 - cosine**2)), 0],
            scope=Scope(theme=theme, subject=None),
            scale=Scale(floor=floor, ceiling=1),
        )
        assert len(hits) == rows
        assert all(0 <= hit.relevance <= 1 and 0 <= hit.score <= 1 for hit in hits)


class TestNeighbours:
    """A turn is judged together with what was said around it."""

    def say(self, memory, *told, session_id="s1", **more):
        """Say texts given as (text, vector) in one session."""
        memory.apply(
            *(memory.turn(text, session_id=session_id, **more) for text, _ in told),
            vectors={n: vector for n, (_, vector) in enumerate(told) if vector},
        )

    def test_the_answer_beside_the_question_is_found(self, memory, contents_of):
        self.say(memory, ("when is tea?", [1, 0, 0]), ("at five", [0, 1, 0]))
        self.say(memory, ("something else", [0.1, 1, 0]), session_id="s2")
        found = contents_of(memory.turns("tea", vector=[1, 0, 0]))
        assert found[:2] == ["when is tea?", "at five"]

    def test_a_neighbour_is_found_though_no_ranking_holds_it(self, memory, contents_of):
        crowd = [(f"near {n}", [1, n / 1000, 0]) for n in range(80)]
        for n, one in enumerate(crowd):
            self.say(memory, one, session_id=f"c{n}")
        self.say(memory, ("hedgehog?", [0.9, 0, 0]), ("yes, here", [0, 1, 0]))
        assert "yes, here" in contents_of(
            memory.turns("hedgehog", vector=[1, 0, 0], limit=200)
        )

    def test_good_company_wins_over_a_lone_equal(self, memory, contents_of):
        self.say(memory, ("x", [1, 0.5, 0]), ("y", [0, 1, 0]), session_id="s1")
        self.say(memory, ("z", [1, 0.5, 0]), ("w", [1, 0.5, 0]), session_id="s2")
        assert contents_of(memory.turns("", vector=[1, 0, 0]))[:2] == ["z", "w"]

    def test_another_session_is_no_neighbour(self, memory, contents_of):
        self.say(memory, ("tea", None), session_id="s1")
        self.say(memory, ("milk", None), session_id="s2")
        assert contents_of(memory.turns("tea")) == ["tea"]

    def test_without_vectors_only_words_find(self, memory, contents_of):
        self.say(memory, ("tea", None), ("milk", None))
        assert contents_of(memory.turns("tea")) == ["tea"]

    def test_what_the_caller_may_not_see_is_no_neighbour(self, memory, contents_of):
        self.say(memory, ("tea at five", [1, 0, 0]), subject=ALICE)
        self.say(memory, ("my secret", [0, 1, 0]), subject=BOB)
        scope = Scope(theme=WORK, subject=ALICE)
        found = memory.turns("tea", vector=[1, 0, 0], scope=scope)
        assert contents_of(found) == ["tea at five"]


class TestScope:
    @pytest.fixture
    def everyone(self, table):
        for theme in (WORK, HOME):
            for subject in (None, ALICE, BOB):
                name = f"tea {theme} {subject and subject[0]}"
                table.put(name, theme=theme, subject=subject, vectors=[[1, 0, 0]])
        return table

    @pytest.mark.parametrize(
        ("scope", "seen"),
        [
            (Scope(theme=WORK, subject=None), ["work None"]),
            (Scope(theme=None, subject=None), ["work None", "home None"]),
            (Scope(theme=WORK, subject=ALICE), ["work a"]),
            (Scope(theme=None, subject=ALICE), ["work a", "home a"]),
            (
                Scope(theme=WORK, subject=ALICE, include_shared=True),
                ["work None", "work a"],
            ),
            (Scope(theme=WORK, subject=None, include_shared=True), ["work None"]),
            (Scope(theme=Theme("none"), subject=ALICE, include_shared=True), []),
        ],
        ids=str,
    )
    def test_decides_who_sees_what(self, everyone, scope, seen):
        for vector in (None, [1, 0, 0]):
            for text in ("tea", ""):
                if text or vector:
                    found = everyone.find(text, vector=vector, scope=scope)
                    assert found == [f"tea {name}" for name in seen]

    def test_never_makes_an_answer_short(self, table, memory):
        # An index over all themes would: the 2,000 nearest rows are another theme's.
        memory.query(
            "INSERT INTO memory_entries (agent_identity, target, content, content_hash,"
            " embedding, model_id, tsv)"
            " SELECT 'home', 'memory', n::text, int4send(n), '[1,0,0]', 1, 'x:1'"
            " FROM generate_series(1, 2000) AS n"
        )
        memory.query(
            "INSERT INTO conversations (agent_identity, session_id, role, content,"
            " turn_key, embedding, model_id, tsv)"
            " SELECT 'home', 's', 'user', n::text, int4send(n), '[1,0,0]', 1, 'x:1'"
            " FROM generate_series(1, 2000) AS n"
        )
        table.put(*"abcdefgh", vectors=[[1, n / 8, 0] for n in range(8)])
        assert table.find("", vector=[1, 0, 0], limit=5) == list("abcde")
        assert table.find("x", vector=[1, 0, 0], limit=5) == list("abcde")


class TestFilters:
    def test_a_target_confines_entries(self, memory, contents_of):
        memory.apply(memory.add("tea m"), memory.add("tea u", target=Target.USER))
        find = lambda target: contents_of(memory.entries("tea", target=target))  # noqa: E731
        assert find(Target.MEMORY) == ["tea m"]
        assert find(Target.USER) == ["tea u"]
        assert find(None) == ["tea m", "tea u"]

    def test_a_session_confines_turns(self, memory, contents_of):
        memory.apply(memory.turn("tea 1"), memory.turn("tea 2", session_id="s2"))
        find = lambda session: contents_of(memory.turns("tea", session_id=session))  # noqa: E731
        assert find("s2") == ["tea 2"]
        assert find("s3") == []
        assert find(None) == ["tea 1", "tea 2"]

    def test_retired_entries_are_never_found(self, memory):
        memory.apply(memory.add("tea"), vectors={0: [1, 0, 0]})
        memory.query("UPDATE memory_entries SET retired_at = now()")
        assert memory.entries("tea", vector=[1, 0, 0]) == []

    def test_what_the_prompt_shows_already_makes_room_for_others(
        self, memory, contents_of
    ):
        texts = [f"tea {n}" for n in range(100)]
        memory.apply(
            *map(memory.add, texts), vectors={n: [1, n / 100, 0] for n in range(100)}
        )
        hits = memory.entries(
            "tea", vector=[1, 0, 0], exclude=[*texts[:95], "\udc97"], limit=5
        )
        assert contents_of(hits) == texts[95:]

    def test_only_the_same_content_is_excluded(self, memory, contents_of):
        memory.apply(memory.add("tea"), memory.add("tea and cake"))
        assert contents_of(memory.entries("tea", exclude=["tea"])) == ["tea and cake"]

    @pytest.mark.parametrize("limit", [1, 7, 20])
    def test_a_limit_is_kept_and_reached(self, table, limit):
        vectors = [[1, n, 0] for n in range(30)]
        table.put(*(f"tea {n}" for n in range(30)), vectors=vectors)
        for more in ({}, {"vector": [1, 0, 0]}):
            assert len(table.find("tea", limit=limit, **more)) == limit


def test_a_hit_tells_where_it_is_from(memory):
    entry = memory.add("tea", target=Target.USER, theme=HOME)
    turn = memory.turn("tea", session_id="s9")
    memory.apply(entry, turn)
    (found,) = memory.entries("tea", scope=Scope(theme=None, subject=None))
    assert (found.theme, found.target, found.content) == ("home", "user", "tea")
    assert (found.created_at, found.updated_at) == (entry.at, entry.at)
    (found,) = memory.turns("tea")
    assert (found.theme, found.session_id, found.role) == ("work", "s9", "user")
    assert found.at == turn.at


def test_fifty_searches_on_twenty_threads_leave_nothing_open(memory):
    search = lambda n: memory.entries(f"nothing {n}", vector=[1, 0, 0])  # noqa: E731
    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(search, range(50))) == [[]] * 50
    states = memory.query(
        "SELECT state FROM pg_stat_activity WHERE application_name = 'hermes-pgmemory'"
        " AND datname = current_database()"
    )
    assert set(states) == {"idle"}
    assert len(states) <= 4


def test_exact_search_finds_what_plain_arithmetic_finds(memory, contents_of):
    rand = random.Random(7)
    vectors = {n: [rand.gauss(0, 1) for _ in range(3)] for n in range(200)}
    turns = [memory.turn(f"turn {n}", session_id=f"s{n}") for n in range(200)]
    memory.apply(*turns, vectors=vectors)
    question = [0.5, -1.0, 0.25]

    def cosine(vector):
        dot = sum(a * b for a, b in zip(vector, question, strict=True))
        return dot / sqrt(sum(a * a for a in vector))

    best = sorted(vectors, key=lambda n: -cosine(vectors[n]))[:10]
    hits = memory.turns("", vector=question, limit=10)
    assert contents_of(hits) == [f"turn {n}" for n in best]


def test_what_is_further_than_the_mean_is_ranked_by_similarity_too(memory, contents_of):
    vectors = {n: [1, 10 - n, 0] for n in range(10)}
    memory.apply(*(memory.add(f"{n}") for n in range(10)), vectors=vectors)
    hits = memory.entries("", vector=[1, 0, 0], limit=10)
    assert contents_of(hits) == [f"{n}" for n in reversed(range(10))]
