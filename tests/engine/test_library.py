"""`Memory`, for programs that are not hermes: the agents' rows, rules and promises."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

import hermes_pgmemory
from hermes_pgmemory.errors import (
    BadRequest,
    ConfigError,
    DatabaseUnavailable,
    Unavailable,
)
from hermes_pgmemory.memory import Memory

PRICE = "Northwind Traders only buys when freight is included in the price."
COLOURS = "The spring campaign uses teal and coral on recycled paper."
ALICE = "+1 555 0100 001"
BOB = "+1 555 0100 002"


@pytest.fixture
def opened(home):
    """Open memories of one home, and close them."""
    memories: list[Memory] = []

    def opened(theme: str = "sales", **kwargs: object) -> Memory:
        memories.append(Memory(theme=theme, home=home.path, **kwargs))
        return memories[-1]

    yield opened
    for memory in memories:
        memory.close(timeout_s=1)


def contents(hits) -> list[str]:
    return [hit.content for hit in hits]


def test_what_it_keeps_it_and_the_agent_of_the_theme_recall(home, opened):
    memory = opened("Sales ")
    memory.add(PRICE)
    memory.add(COLOURS, target="user")
    memory.add(PRICE)
    memory.flush()
    found = memory.recall("What does Northwind expect about shipping costs?", limit=1)
    assert (contents(found), found.degraded) == ([PRICE], None)
    assert (found[0].theme, found[0].target) == ("sales", "memory")
    assert (found[0].platform, found[0].similarity > 0.5) == ("library", True)
    assert contents(memory.recall("campaign", target="user")) == [COLOURS]
    assert opened("trading").recall("Northwind") == []
    assert contents(opened("trading").recall("Northwind", scope="all"))[0] == PRICE

    agent = home.agent(gateway_session_key="sales")
    answer = agent.handle_tool_call("recall_memory", {"query": "Northwind freight"})
    assert PRICE in [hit["content"] for hit in json.loads(answer)["results"]]


def test_what_an_agent_keeps_it_replaces_and_removes(home, opened, eventually):
    agent = home.agent(gateway_session_key="sales")
    agent.on_memory_write("add", "memory", PRICE, {})
    memory = opened()
    eventually(lambda: contents(memory.entries()) == [PRICE])
    memory.replace("Northwind", f"{PRICE} Since May.")
    memory.add(COLOURS)
    memory.flush()
    assert contents(memory.entries()) == [COLOURS, f"{PRICE} Since May."]
    assert contents(memory.entries(holding="freight")) == [f"{PRICE} Since May."]
    memory.remove(PRICE, whole=True)
    memory.remove(COLOURS, whole=True)
    memory.flush()
    assert contents(memory.entries()) == [f"{PRICE} Since May."]
    assert [(one.theme, one.entries) for one in memory.themes()] == [("sales", 1)]


def test_no_file_of_the_home_takes_its_entries_away(home, opened, eventually):
    memory = opened("hermes")
    memory.add(PRICE)
    memory.flush()
    file = home.path / "memories" / "MEMORY.md"
    file.write_text(COLOURS)
    agent = home.agent()
    eventually(lambda: COLOURS in home.entries("hermes"), within_s=60)
    assert agent._engine.writer.flush(timeout_s=10)
    assert PRICE in home.entries("hermes")


def test_a_conversation_is_kept_once_and_found_by_its_session(opened):
    memory = opened()
    asked = "Could you tell me once more what Northwind wanted to have in the price?"
    said = "They wanted freight to be included, and said so twice in May."
    assert memory.turn(asked, said, session="call 1") == 2
    assert memory.turn("thanks!", said, session="call 2") == 1
    memory.flush()
    found = memory.recall_turns("freight", session="call 1")
    assert {hit.content for hit in found} == {asked, said}
    assert memory.recall_turns("freight", session="call 3") == []
    assert {hit.session_id for hit in memory.recall_turns("freight")} == {
        *("call 1", "call 2")
    }
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert memory.recall_turns("freight", since=tomorrow) == []
    assert contents(memory.recall_turns("freight", role="user")) == [asked]


def test_a_program_that_is_killed_loses_nothing_it_kept(home, opened):
    code = (
        "import os, sys\n"
        "from hermes_pgmemory import Memory\n"
        "memory = Memory(theme='sales', home=sys.argv[1])\n"
        "memory.add(sys.argv[2])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, str(home.path), PRICE], check=False
    )
    assert killed.returncode == -9
    memory = opened()
    memory.flush()
    assert contents(memory.entries()) == [PRICE]


class TestWithoutADatabase:
    def test_it_keeps_and_says_that_it_cannot_search(self, opened, outage, eventually):
        memory = opened()
        memory.flush()
        outage.begin()
        memory.add(PRICE)
        with pytest.raises(Unavailable, match="writes are kept in the journal only"):
            memory.flush(timeout_s=5)
        with pytest.raises(DatabaseUnavailable):
            memory.recall("Northwind")
        with pytest.raises(DatabaseUnavailable):
            memory.entries()
        outage.end()
        eventually(lambda: memory._engine.writer.flush(timeout_s=5))
        assert home_has(memory, PRICE, eventually)

    def test_a_private_chat_is_not_opened_without_the_key(self, tmp_path, monkeypatch):
        monkeypatch.setattr("hermes_pgmemory.engine.FIRST_MEETING_S", 0.1)
        nowhere = f"host={tmp_path} dbname=none"
        with pytest.raises(DatabaseUnavailable, match="never met the database"):
            Memory(theme=ALICE, home=tmp_path / "new", dsn=nowhere)


def home_has(memory, content, eventually) -> bool:
    def look() -> bool:
        try:
            return contents(memory.entries()) == [content]
        except Unavailable:
            return False  # the breaker's pause

    return eventually(look)


class TestPrivateChats:
    def test_each_sees_its_own_rows_only(self, home, opened):
        opened("sales").add(PRICE)
        alice, bob = opened(ALICE), opened(BOB)
        assert alice.theme == bob.theme == "whatsapp-dm"
        alice.add("Alice asks for freight to be paid by us.")
        alice.flush()
        assert len(alice.recall("freight")) == 1
        assert bob.recall("freight") == []
        assert bob.entries() == []
        assert contents(opened("sales").recall("freight", scope="all")) == [PRICE]
        assert contents(opened("sales").recall("freight", scope="whatsapp-dm")) == []
        assert [one.theme for one in opened("sales").themes()] == ["sales"]
        for forbidden in ("all", "sales"):
            with pytest.raises(BadRequest, match="private chats recall only their own"):
                alice.recall("freight", scope=forbidden)
            with pytest.raises(BadRequest, match="private chats recall only their own"):
                alice.entries(scope=forbidden)
        with pytest.raises(BadRequest, match="private chats recall only their own"):
            alice.themes()
        told = "SELECT concat(agent_identity, metadata, subject) FROM memory_entries"
        assert not any("0100" in row for (row,) in home.rows(told))

    def test_a_client_of_the_api_server_that_sends_the_name_is_the_same(
        self, home, opened, eventually
    ):
        agent = home.agent(gateway_session_key=ALICE)
        agent.on_memory_write("add", "memory", "Alice prefers mornings.", {})
        alice = opened(ALICE)
        eventually(lambda: contents(alice.entries()) == ["Alice prefers mornings."])


WRONG = [
    lambda memory: memory.add("  "),
    lambda memory: memory.add(None),
    lambda memory: memory.add("x", target="soul"),
    lambda memory: memory.replace("", "x"),
    lambda memory: memory.replace("x", "\0"),
    lambda memory: memory.remove(" "),
    lambda memory: memory.remove(7),
    lambda memory: memory.recall(""),
    lambda memory: memory.recall("x", limit="many"),
    lambda memory: memory.recall("x", target="soul"),
    lambda memory: memory.recall("x", since="soon"),
    lambda memory: memory.recall_turns("x", role="pope"),
    lambda memory: memory.entries(target="soul"),
    lambda _: Memory(theme=None),
]


def test_a_wrong_argument_is_named(opened):
    memory = opened()
    for call in WRONG:
        with pytest.raises(BadRequest):
            call(memory)


def test_a_wrong_setting_is_named(home):
    with pytest.raises(ConfigError, match="did you mean 'embed_url'"):
        Memory(theme="sales", home=home.path, settings={"embed_ur": "x"})
    with pytest.raises(ConfigError, match="dsn: is empty"):
        Memory(theme="sales", dsn="")
    with pytest.raises(ConfigError, match="dsn"):
        Memory(theme="sales", dsn="postgresql://a:b@c@d/e")


def test_with_a_connection_string_alone_its_files_have_a_place_of_their_own(
    home, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for password in ("one", "two"):
        with Memory(theme="sales", dsn=f"{home.dsn} password={password}") as memory:
            memory.add(f"Kept with {password}.")
    [folder] = (tmp_path / "state" / "hermes-pgmemory").iterdir()
    assert (folder / "pgvector" / "journal").is_dir()
    assert home.entries("sales") == ["Kept with one.", "Kept with two."]


def test_one_that_is_closed_says_so(opened):
    with opened() as memory:
        memory.add(PRICE)
    memory.close()
    with pytest.raises(BadRequest, match="closed"):
        memory.add(PRICE)
    assert contents(opened().entries()) == [PRICE]


def test_importing_the_package_loads_nothing():
    code = (
        "import sys, hermes_pgmemory\n"
        "heavy = {'psycopg', 'pydantic', 'httpx', 'hermes_pgmemory.memory'}\n"
        "print(sorted(heavy & set(sys.modules)), hermes_pgmemory.Memory.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[] Memory\n"
    assert hermes_pgmemory.Memory is Memory
