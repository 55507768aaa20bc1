"""Minions share a database, not what they know; unless they ask."""

from __future__ import annotations

import pytest
from _quickstart.chat_model import ChatModel
from _quickstart.gateway import Gateway
from host_kit import Database, call, eventually, results_of

# One process, one gateway.
pytestmark = pytest.mark.xdist_group("isolation")

FACT = "The harvest festival of {} takes place in the old mill."
QUESTION = "Where do people celebrate when the crops are in?"


@pytest.fixture(scope="module")
def two_minions(gateway: Gateway, shared_database: Database) -> tuple[str, str]:
    """Two themes; the first one knows a fact, the second something else."""
    theme, other = "farmers", "mechanics"
    told = (
        (theme, FACT.format(theme)),
        (other, f"{other} repairs bicycles on Mondays."),
    )
    for who, text in told:
        add = call("memory", action="add", target="memory", content=text)
        gateway.ask(f"Please keep this for {who}, it will be needed.\n{add}", key=who)
    for who, text in told:
        eventually(lambda who=who: shared_database.entries(who), [text])
        eventually(lambda who=who: len(shared_database.turns(who)), 2)
    return theme, other


class TestRecallTools:
    def test_a_minion_finds_its_own(
        self, gateway: Gateway, chat_model: ChatModel, two_minions: tuple[str, str]
    ):
        mine, _ = two_minions
        found = results_of(gateway, chat_model, mine, "recall_memory", query=QUESTION)
        assert [row["content"] for row in found] == [FACT.format(mine)]

    def test_another_minion_does_not_find_it(
        self, gateway: Gateway, chat_model: ChatModel, two_minions: tuple[str, str]
    ):
        mine, other = two_minions
        found = results_of(gateway, chat_model, other, "recall_memory", query=QUESTION)
        assert mine not in {row["theme"] for row in found}

    @pytest.mark.parametrize("tool", ["recall_memory", "recall_conversation"])
    @pytest.mark.parametrize("by_name", [False, True])
    def test_it_does_when_it_asks_beyond_itself(
        self,
        gateway: Gateway,
        chat_model: ChatModel,
        two_minions: tuple[str, str],
        tool: str,
        by_name: bool,
    ):
        mine, other = two_minions
        found = results_of(
            gateway,
            chat_model,
            other,
            tool,
            query=f"harvest festival old mill {mine}",
            scope=mine if by_name else "all",
        )
        assert any(FACT.format(mine) in row["content"] for row in found)

    def test_a_conversation_is_not_found_by_another_minion(
        self, gateway: Gateway, chat_model: ChatModel, two_minions: tuple[str, str]
    ):
        mine, other = two_minions
        found = results_of(
            gateway, chat_model, other, "recall_conversation", query=f"keep for {mine}"
        )
        assert {row["theme"] for row in found} == {other}
