"""What the host says of a contact ends in a hash: in rows, files, logs and figures."""

from __future__ import annotations

import logging

import pytest
from prometheus_client import generate_latest

from hermes_pgmemory import cli
from hermes_pgmemory.metrics import REGISTRY
from hermes_pgmemory.paths import HomePaths

CHATS = {
    "telegram": {"user_id": "15550100201", "chat_id": "15550100201"},
    "whatsapp": {"user_id": "15550100202@lid", "chat_id": "15550100202@s.whatsapp.net"},
    "signal": {"user_id": "+15550100203", "user_id_alt": "0f9ad2b1-signal-uuid"},
    "slack": {"user_id": "U0QX4RVB7A", "chat_id": "D0QX4RVB7B", "thread_id": "17.0204"},
    "matrix": {
        "user_id": "@dora.moniker:chat.example",
        "chat_id": "!cellar:chat.example",
    },
    "discord": {"user_id": "998877665544330205", "user_name": "emil.moniker"},
    "google_chat": {"user_id": "users/1155501002060", "chat_id": "spaces/AAQAcellar"},
    "email": {"user_id": "freya.moniker@mail.example", "chat_name": "Freya Example"},
    "sms": {"user_id": "+1 (555) 010-0207"},
    "api_server": {},
}
"""What the host tells beside the key, by platform; the key tells it again."""

NOTE = "{} collects old lighthouse postcards from the northern coast."
SPOKEN = "This is {}: my sister paints the lighthouse on Sundays."


def key_of(platform: str) -> str:
    said = CHATS[platform]
    name = said.get("chat_id") or said.get("user_id") or "15550100208"
    key = f"agent:main:{platform}:dm:{name}"
    return key if platform != "api_server" else f"telegram:{name}"


IDS = {
    *(value for said in CHATS.values() for value in said.values()),
    *("15550100208", "moniker", "cellar", "mail.example", "chat.example", "155501002"),
    *("010-0207", "998877665544330205", "Freya Example", "0QX4RVB7", "signal-uuid"),
}


def leaks(text: str) -> set[str]:
    return {name for name in IDS if name.casefold() in text.casefold()}


def talk(home, platform: str):
    """Do all that an agent does in a private chat whose session is named after it."""
    key = key_of(platform)
    names = {
        "platform": platform,
        "chat_type": "dm",
        "gateway_session_key": key,
        "parent_session_id": f"before {key}",
        **CHATS[platform],
    }
    if platform == "api_server":
        del names["chat_type"]
    agent = home.agent(key, **names)
    told = {"task_id": key, "session_id": key, "platform": platform}
    agent.on_memory_write("add", "user", NOTE.format(platform), told)
    agent.sync_turn(SPOKEN.format(platform), "ok", session_id=f"{key}:now")
    agent.on_delegation("Buy paint", "Bought it", child_session_id=f"{key}:child")
    agent.on_session_switch(f"{key}:next", parent_session_id=key, reset=True)
    agent.on_session_end([{"role": "user", "content": SPOKEN.format("retold " * 3)}])
    return agent


@pytest.fixture
def agents(home, eventually, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    agents = {platform: talk(home, platform) for platform in CHATS}
    # A theme whose client names its session after somebody's chat.
    agents["theme"] = home.agent("sms:15550100208", gateway_session_key="marketing")
    agents["theme"].sync_turn(SPOKEN.format("a theme"), "ok", session_id="+15550100208")
    # Each trouble has words of its own for the log.
    agents["sms"].on_memory_write("add", "user", "bad", {"task_id": object()})
    agents["sms"].sync_turn(None, None, session_id="+15550100208", messages=[None])
    agents["sms"].on_delegation(object(), None, child_session_id="+15550100208")
    agents["sms"].handle_tool_call("recall_memory", {"query": "x", "scope": "sms:1555"})
    eventually(lambda: len(home.entries("whatsapp-dm")) == len(CHATS) + 1)
    eventually(lambda: len(home.turns("marketing")) == 1)
    return agents


def test_no_id_stays(
    agents,
    home,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
):
    for agent in agents.values():
        agent.shutdown()
    tables = home.rows(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    )
    for (table,) in tables:
        for (row,) in home.rows(f"SELECT t::text FROM {table} t"):
            assert leaks(row) == set(), table
    files = [path for path in HomePaths(home.path).state.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert leaks(path.read_bytes().decode("latin-1")) == set(), path
    assert caplog.records
    for record in caplog.records:
        assert leaks(f"{record.getMessage()} {record.exc_text}") == set()
    assert leaks(generate_latest(REGISTRY).decode()) == set()
    for verb in ("status", "stats"):
        cli.main([verb, "--json", "--home", str(home.path)])
        assert leaks("".join(capsys.readouterr())) == set()


def test_each_contact_is_given_their_own_note_unasked_and_nobody_elses(
    agents, eventually
):
    question = "Who collects old lighthouse postcards from the northern coast?"
    for platform in CHATS:
        block = eventually(lambda who=platform: agents[who].prefetch(question))
        assert {one for one in CHATS if NOTE.format(one) in block} == {platform}


@pytest.mark.usefixtures("agents")
def test_a_session_named_after_a_chat_is_still_one_session(home, eventually):
    """Its name is another, but the same each time: nothing said twice is kept twice."""
    key = key_of("telegram")
    again = home.agent(
        key,
        platform="telegram",
        chat_type="dm",
        gateway_session_key=key,
        **CHATS["telegram"],
    )
    again.sync_turn("And this is new, said in the very same session.", "ok")
    again.on_session_end([{"role": "user", "content": SPOKEN.format("telegram")}])

    def sessions(text: str) -> list[tuple[str]]:
        return home.rows(
            "SELECT session_id FROM conversations WHERE content = %s", text
        )

    eventually(lambda: sessions("And this is new, said in the very same session."))
    entry = home.rows(
        "SELECT metadata->>'session_id', metadata->>'task_id' FROM memory_entries"
        " WHERE content = %s",
        NOTE.format("telegram"),
    )
    [(session,)] = sessions("And this is new, said in the very same session.")
    assert session.startswith("chat-")
    assert entry == [(session, session)]


@pytest.mark.parametrize(
    "session_id",
    [
        "20261130_181621_1a2b3c4d",
        "api-0123456789abcdef",
        "5f0c2d6e-1b7a-4c55-9a39-0e6f3a1b2c4d",
        "5f0c2d6e1b7a4c559a390e6f3a1b2c4d",
    ],
)
def test_an_id_that_the_host_made_up_is_kept(home, eventually, session_id: str):
    agent = home.agent(session_id, gateway_session_key="telegram:15550100209")
    agent.sync_turn(SPOKEN.format("somebody"), "ok")
    eventually(lambda: [one for one, _, _ in home.turns("whatsapp-dm")] == [session_id])
