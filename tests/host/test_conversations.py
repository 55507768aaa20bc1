"""What is said through the API server is kept once, and recalled in time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from _quickstart.chat_model import ChatModel
from _quickstart.gateway import Gateway
from host_kit import Database, call, eventually, injected, results_of

# One process, one gateway.
pytestmark = pytest.mark.xdist_group("conversations")


def said(theme: str, number: int) -> str:
    return f"Message {number} of {theme}, long enough to be worth keeping."


class TestKeepingTurns:
    def test_each_turn_of_a_conversation_is_kept_once_and_in_order(
        self, gateway: Gateway, shared_database: Database, theme: str
    ):
        history: list[tuple[str, str]] = []
        for number in range(3):
            text = said(theme, number)
            history.append((text, gateway.ask(text, key=theme, history=history).text))
        spoken = [
            turn
            for user, assistant in history
            for turn in (("user", user), ("assistant", assistant))
        ]
        eventually(lambda: shared_database.turns(theme), spoken)

    def test_the_same_words_said_twice_are_two_turns(
        self, gateway: Gateway, shared_database: Database, theme: str
    ):
        text = said(theme, 0)
        first = gateway.ask(text, key=theme).text
        gateway.ask(text, key=theme, history=[(text, first)])
        spoken = [("user", text), ("assistant", first)] * 2
        eventually(lambda: shared_database.turns(theme), spoken)

    def test_an_acknowledgement_is_not_kept(
        self, gateway: Gateway, shared_database: Database, theme: str
    ):
        answer = gateway.ask("ok thanks", key=theme).text
        eventually(lambda: shared_database.turns(theme), [("assistant", answer)])

    def test_recalled_memory_does_not_become_a_turn(
        self,
        gateway: Gateway,
        chat_model: ChatModel,
        shared_database: Database,
        theme: str,
    ):
        fact = f"The lighthouse of {theme} is painted in red and white."
        add = call("memory", action="add", target="memory", content=fact)
        session = f"session-of-{theme}"
        gateway.ask(f"Note the following.\n{add}", key=theme, session_id=session)
        eventually(lambda: shared_database.entries(theme), [fact])
        # What MEMORY.md shows in the prompt is not injected again.
        (gateway.home.path / "memories" / "MEMORY.md").unlink()
        asked = f"In which colours is the lighthouse of {theme} painted?"
        gateway.ask(asked, key=theme, session_id=f"{session}-2")
        assert fact in injected(chat_model, asked)
        gateway.ask(said(theme, 1), key=theme, session_id=f"{session}-2")
        eventually(
            lambda: ("user", said(theme, 1)) in shared_database.turns(theme), True
        )
        assert ("user", asked) in shared_database.turns(theme)
        assert not any(
            "memory-context" in text for _, text in shared_database.turns(theme)
        )

    def test_streamed_answers_are_kept_too(
        self, gateway: Gateway, shared_database: Database, theme: str
    ):
        text = said(theme, 7)
        messages = [{"role": "user", "content": text}]
        status, _ = gateway.post(messages, {"X-Hermes-Session-Key": theme}, stream=True)
        assert status == 200
        eventually(lambda: len(shared_database.turns(theme)), 2)


class TestAFreshProviderPerRequest:
    def test_the_second_request_recalls_what_the_first_one_wrote(
        self,
        gateway: Gateway,
        chat_model: ChatModel,
        shared_database: Database,
        theme: str,
    ):
        fact = f"The meeting point of {theme} is behind the old barn."
        add = call("memory", action="add", target="memory", content=fact)
        asked = f"Please keep this place for {theme} in mind.\n{add}"
        first = gateway.ask(asked, key=theme)
        eventually(lambda: shared_database.entries(theme), [fact])
        found = results_of(
            gateway,
            chat_model,
            theme,
            "recall_memory",
            history=[(asked, first.text)],
            query="At which building shall we gather?",
        )
        assert [row["content"] for row in found] == [fact]

    def test_a_session_is_searched_alone_when_asked_so(
        self,
        gateway: Gateway,
        chat_model: ChatModel,
        shared_database: Database,
        theme: str,
    ):
        for number in (1, 2):
            gateway.ask(said(theme, number), key=theme, session_id=f"{theme}-{number}")
        eventually(lambda: len(shared_database.turns(theme)), 4)
        found = results_of(
            gateway,
            chat_model,
            theme,
            "recall_conversation",
            session_id=f"{theme}-2",
            query=f"message of {theme}",
            scope="session",
        )
        assert {row["session_id"] for row in found} == {f"{theme}-2"}

    def test_many_minions_at_once_each_keep_their_own(
        self, gateway: Gateway, shared_database: Database, theme: str
    ):
        themes = [f"{theme}-{number}" for number in range(4)]

        def work(who: str) -> None:
            add = call("memory", action="add", target="memory", content=f"{who} acts")
            gateway.ask(f"{said(who, 1)}\n{add}", key=who)

        with ThreadPoolExecutor(len(themes)) as pool:
            list(pool.map(work, themes))
        for who in themes:
            eventually(lambda who=who: shared_database.entries(who), [f"{who} acts"])
            eventually(lambda who=who: len(shared_database.turns(who)), 2)
