"""The search as an operator sees it: what agents find, and why."""

from __future__ import annotations

import pytest
from maintenance_kit import START, days_ago

from hermes_pgmemory.models import Role, Subject, Target, Theme

ANNA = Subject("a" * 32)
NEAR, FAR = [1.0, 0.5, 0.5], [-1.0, 0.5, 0.5]
"""The endpoint makes the first of any question."""
NOWHERE = "host=127.0.0.1 port=1 dbname=nothing"


@pytest.fixture
def shop(memory):
    """Two themes and a contact know things of tea, and other things."""
    memory.apply(
        memory.entry("Green tea comes from Uji", at=days_ago(3)),
        memory.entry("The shop opens at nine", target=Target.USER),
        memory.entry("Tea is sold by weight", theme=Theme("till")),
        memory.entry("Anna is allergic to tea", subject=ANNA),
        memory.turn("Which tea do we have?", session_id="monday"),
        memory.turn("We have green tea", role=Role.ASSISTANT, session_id="monday"),
        vectors={0: NEAR, 1: FAR, 2: NEAR, 3: NEAR, 4: NEAR, 5: NEAR},
    )


@pytest.fixture
def recall(run, configure, dsn, endpoint):
    configure(dsn=dsn, embed_url=endpoint.url, embed_model="test")
    return lambda *words: run("recall", *words)


@pytest.mark.usefixtures("shop")
class TestWhatIsFound:
    def test_entries_of_a_theme_with_their_reasons(self, recall):
        results = recall("tea from Uji", "--theme", "work", "--json").data["results"]
        first, second = results
        assert first["content"] == "Green tea comes from Uji"
        assert first["why"]["words"] == 1
        assert first["why"]["nearness"] == 1
        assert second["content"] == "The shop opens at nine"
        assert second["why"]["words"] == 0
        assert first["relevance"] > second["relevance"]

    def test_people_see_which_ones_an_agent_would_be_told(self, recall):
        lines = recall("tea from Uji", "--theme", "work").out.splitlines()
        [told] = [line for line in lines if "Uji" in line]
        [untold] = [line for line in lines if "nine" in line]
        assert " told " in told
        assert " told " not in untold

    def test_all_themes_without_one(self, recall):
        results = recall("tea", "--json").data["results"]
        assert {one["theme"] for one in results} == {"work", "till"}

    def test_a_contacts_rows_only_for_who_names_the_contact(self, recall):
        for words in ((), ("--theme", "work"), ("--turns",)):
            assert "Anna" not in recall("tea", *words).out
        own = recall("tea", "--theme", "work", "--subject", ANNA, "--json").data
        assert [one["content"] for one in own["results"]] == ["Anna is allergic to tea"]

    def test_turns_with_what_was_said_beside_them(self, recall):
        ran = recall("green tea", "--turns", "--role", "assistant", "--json")
        [hit] = ran.data["results"]
        assert hit["session_id"] == "monday"
        assert hit["before"]["content"] == "Which tea do we have?"
        assert "We have green tea" in recall("green tea", "--turns").out

    def test_the_same_narrowing_as_the_tools(self, recall):
        def found(*words):
            data = recall("tea", "--theme", "work", "--json", *words).data
            return [one["content"] for one in data["results"]]

        assert found("--target", "user") == ["The shop opens at nine"]
        assert found("--since", f"{days_ago(10):%Y-%m-%d}") == [
            "Green tea comes from Uji"
        ]
        assert found("--until", f"{START:%Y-%m-%d}") == ["The shop opens at nine"]
        assert found("--limit", "1") == ["Green tea comes from Uji"]
        assert found("--platform", "telegram") == []

    def test_it_leaves_no_trace(self, recall, tmp_path, memory):
        before = memory.query("SELECT count(*) FROM memory_agents")
        recall("tea")
        assert memory.query("SELECT count(*) FROM memory_agents") == before
        assert [one.name for one in tmp_path.iterdir()] == ["config.yaml"]


@pytest.mark.usefixtures("shop")
class TestWhenSomethingIsMissing:
    def test_words_alone_find_without_the_model(self, recall, endpoint):
        endpoint.answers_left = 0
        ran = recall("Uji", "--theme", "work", "--json")
        assert ran.status == 0
        assert ran.data["results"][0]["content"] == "Green tea comes from Uji"
        assert ran.data["results"][0]["why"]["nearness"] is None
        assert "searched by words only" in ran.data["degraded"]
        assert "searched by words only" in recall("Uji").err

    def test_another_model_than_the_databases_is_told(
        self, run, configure, dsn, endpoint
    ):
        configure(dsn=dsn, embed_url=endpoint.url, embed_model="other")
        ran = run("recall", "Uji")
        assert "Green tea comes from Uji" in ran.out
        assert "the database's vectors come from" in ran.err

    def test_a_database_that_is_down_is_one_line_and_status_3(
        self, run, configure, endpoint
    ):
        configure(dsn=NOWHERE, embed_url=endpoint.url, embed_model="test")
        ran = run("recall", "tea")
        assert ran.status == 3
        assert ran.out == ""
        assert ran.err.count("\n") == 1

    def test_a_standby_is_asked_first(self, run, configure, dsn, endpoint):
        configure(dsn=NOWHERE, dsn_read=dsn, embed_url=endpoint.url, embed_model="test")
        assert "Uji" in run("recall", "Uji").out

    def test_nothing_found_is_said(self, recall):
        ran = recall("tea", "--theme", "till", "--platform", "telegram")
        assert (ran.status, ran.out) == (0, "nothing found\n")

    @pytest.mark.parametrize("words", [("recall", "tea"), ("history",)])
    def test_a_theme_that_does_not_exist_is_named(self, run, words):
        ran = run(*words, "--theme", "wrok")
        assert (ran.status, ran.out) == (2, "")
        assert "no theme is called wrok" in ran.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((" ",), "query"),
        (("tea", "--since", "soon"), "since"),
        (("tea", "--limit", "few"), "limit"),
        (("tea", "--role", "user"), "--turns"),
        (("tea", "--turns", "--target", "user"), "--target"),
        (("tea", "--subject", ANNA), "--theme"),
    ],
)
def test_what_makes_no_sense_is_named(recall, words, named):
    ran = recall(*words)
    assert (ran.status, ran.out) == (2, "")
    assert named in ran.err
    assert ran.err.count("\n") == 1
