"""Private chats through the real API server: nobody sees another's, and no id stays."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest
from _quickstart.chat_model import ChatModel
from _quickstart.gateway import Gateway
from host_kit import (
    Database,
    MakeHome,
    eventually,
    injected,
    look_up,
    tool_answers,
)
from psycopg import sql

# One process: what the first tests say, the last ones look for.
pytestmark = pytest.mark.xdist_group("privacy")

KEYS = {
    "Anna": "agent:main:telegram:dm:15550100101",
    "Boris": "agent:main:whatsapp:dm:15550100102@s.whatsapp.net",
    "Clara": "agent:main:signal:dm:+15550100103",
    "Dora": "agent:main:slack:dm:D0XK7QJ2MZ:1700000000.000104",
    "Emil": "agent:main:matrix:dm:!privateroom:chat.example",
    "Freya": "agent:main:discord:dm:998877665544332211",
    "Gustav": "agent:main:google_chat:dm:spaces/AAQAprivate/threads/xyzzy",
    "Hanna": "agent:main:email:dm:hanna.handle@mail.example",
    "Ivo": "+1 (555) 010-0105",
}
"""Contacts, and the session keys their messages come with."""

IDS = (
    "15550100101",
    "15550100102",
    "15550100103",
    "D0XK7QJ2MZ",
    "1700000000.000104",
    "privateroom",
    "chat.example",
    "998877665544332211",
    "AAQAprivate",
    "xyzzy",
    "hanna.handle",
    "mail.example",
    "010-0105",
    "15550100105",
    "0100105",
)
"""What identifies them, in the forms that a row or a line might have."""

NOTE = "{} collects old lighthouse postcards from the northern coast."
SPOKEN = "My name is {}, and my sister paints the lighthouse on Sundays."
QUESTION = "Who collects old lighthouse postcards from the northern coast?"


def session_of(key: str) -> str:
    """Name a session after its chat, in what the API server allows."""
    return key.replace("/", ".")


@pytest.fixture(scope="module")
def private_gateway(
    make_home: MakeHome,
    chat_model: ChatModel,
    shared_database: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    """A gateway that logs all there is, and has heard every contact."""
    folder = tmp_path_factory.mktemp("private")
    room = {"memory_char_limit": 100_000, "user_char_limit": 100_000}
    home = make_home(folder / "home", {"dsn": shared_database.dsn}, memory=room)
    with (home.path / "config.yaml").open("a") as config:
        config.write("logging: {level: DEBUG}\n")
    with Gateway(home, folder / "gateway.log") as gateway:
        for who, key in KEYS.items():
            note = {"action": "add", "target": "user", "content": NOTE.format(who)}
            task = {"goal": f"Greet {who} from the lighthouse"}
            calls = [("memory", note), ("delegate_task", task)]
            text = SPOKEN.format(who)
            chat_model.script[text] = calls if who in ("Anna", "Ivo") else calls[:1]
            # As a bridge would name its sessions: after the chat.
            gateway.ask(text, key=key, session_id=session_of(key))
        eventually(
            lambda: shared_database.entries("whatsapp-dm", "user"),
            sorted(NOTE.format(who) for who in KEYS),
        )
        yield gateway


@pytest.mark.parametrize("who", KEYS)
def test_a_contact_sees_their_own_and_nobody_elses(
    private_gateway: Gateway, chat_model: ChatModel, who: str
):
    def ours(text: str) -> set[str]:
        return {name for name in KEYS if name in text}

    tools = ("recall_memory", "recall_conversation")
    calls = [(tool, {"query": QUESTION}) for tool in tools]
    asked = look_up(chat_model, *calls, words=QUESTION)
    private_gateway.ask(asked, key=KEYS[who])
    for tool, found in zip(tools, tool_answers(chat_model, asked), strict=True):
        assert ours(json.dumps(json.loads(found)["results"])) == {who}, tool
    # Their own note is in the prompt already; tests/engine sees it injected.
    assert ours(injected(chat_model, asked)) <= {who}


@pytest.mark.parametrize("scope", ["all", "whatsapp-dm", "session"])
def test_asking_for_more_does_not_help(
    private_gateway: Gateway, chat_model: ChatModel, scope: str
):
    tool, query = "recall_conversation", "the lighthouse on Sundays"
    boris = session_of(KEYS["Boris"])
    for key in (KEYS["Anna"], "marketing"):
        asked = look_up(chat_model, (tool, {"query": query, "scope": scope}))
        private_gateway.ask(asked, key=key, session_id=boris)
        # The host itself tells the model the session's history, tool calls included.
        assert "Boris" not in tool_answers(chat_model, asked)[-1]


class TestNoIdStays:
    """After all that: neither in the database, nor in a file or a word of ours."""

    def leaks(self, text: str) -> set[str]:
        return {name for name in IDS if name.casefold() in text.casefold()}

    def test_in_any_row_of_any_table(
        self, private_gateway: Gateway, shared_database: Database
    ):
        with psycopg.connect(shared_database.dsn) as connection:
            tables = connection.execute(
                "SELECT table_name FROM information_schema.tables"
                " WHERE table_schema = 'public'"
            ).fetchall()
            assert len(tables) > 8
            for (table,) in tables:
                rows = connection.execute(
                    sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(table))
                )
                for (row,) in rows:
                    assert self.leaks(row) == set(), f"{table}: {row}"

    def test_in_any_file_of_ours(self, private_gateway: Gateway):
        home = private_gateway.home.path
        files = [f for d in ("pgvector", "plugins") for f in (home / d).rglob("*")]
        seen = [file for file in files if file.is_file()]
        assert any(file.parent.name == "journal" for file in seen)
        for file in seen:
            text = f"{file} {file.read_bytes().decode('latin-1')}"
            assert self.leaks(text) == set(), file

    def test_in_any_line_of_the_logs_that_is_ours(self, private_gateway: Gateway):
        logs = [private_gateway.log, *private_gateway.home.path.glob("logs/*")]
        lines = [
            line
            for log in logs
            if log.is_file()
            for line in log.read_text(errors="replace").splitlines()
        ]
        assert any("DEBUG" in line for line in lines)
        # The host's own lines name its sessions; those are not for us to change.
        foreign = (" gateway.", " agent.", " run_agent", " tools.", " hermes_")
        ours = [line for line in lines if not any(name in line for name in foreign)]
        for line in [*ours, *(line for line in lines if "pgmemory" in line)]:
            assert self.leaks(line) == set(), line

    @pytest.mark.parametrize(
        "words",
        [["status"], ["stats"], ["config"], ["replay"], ["server", "status"]],
        ids=" ".join,
    )
    def test_in_what_a_command_prints(self, private_gateway: Gateway, words: list[str]):
        home = private_gateway.home
        for options in (["--json"], ["--debug"]):
            done = home.run("hermes-pgvector", *words, *options)
            assert done.returncode == 0, done.stderr
            assert self.leaks(done.stdout + done.stderr) == set()
