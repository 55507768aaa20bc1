"""Two contacts of one bucket, by the hooks; one of them is forgotten."""

from __future__ import annotations

import json
import time

import pytest

from hermes_pgmemory import cli
from hermes_pgmemory.paths import HomePaths

NUMBERS = {"Anna": "+15550100301", "Bert": "+15550100302"}
SAID = "{} asked me which orchids live through a northern winter."
OLD = "{} told this an hour ago: the greenhouse has a broken window."


def agent_of(home, who: str):
    return home.agent(
        f"signal-{who}",
        platform="signal",
        chat_type="dm",
        gateway_session_key=f"agent:main:signal:dm:{NUMBERS[who]}",
        user_id=NUMBERS[who],
    )


def talk(agent, who: str) -> None:
    agent.on_memory_write("add", "user", f"{who} grows tomatoes on the balcony.", {})
    agent.on_memory_write(
        "replace",
        "user",
        f"{who} grows peppers on the balcony.",
        {"old_text": f"{who} grows tomatoes"},
    )
    agent.sync_turn(SAID.format(who), f"A hardy one, {who}: lady's slippers will live.")
    agent.on_delegation(f"Look up orchids for {who}", "Done", child_session_id="c")


@pytest.fixture
def rows(home):
    def rows() -> dict[str, list[str]]:
        tables = home.rows(
            "SELECT relname::text FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'public'::regnamespace"
        )
        return {
            name: [row for (row,) in home.rows(f"SELECT t::text FROM {name} t")]
            for (name,) in tables
        }

    return rows


def test_one_is_gone_from_every_table_and_file_and_the_other_is_whole(
    home, rows, eventually, monkeypatch, capsys
):
    home.configure(embed_on_write=False)
    agents = {who: agent_of(home, who) for who in NUMBERS}
    for who, agent in agents.items():
        talk(agent, who)
    eventually(lambda: len(home.turns("whatsapp-dm")) == 6)
    # The host's file, which nobody wrote, is compared once the writer is idle.
    missing = "SELECT FROM memory_entries WHERE missing_from <> '{}'"
    eventually(lambda: len(home.rows(missing)) == len(NUMBERS))

    def of(who: str) -> list[str]:
        return [row for rows in rows().values() for row in rows if who in row]

    bert = of("Bert")
    assert len(of("Anna")) == len(bert) == 6
    monkeypatch.setenv("WHO", "+1 555 0100 301")
    capsys.readouterr()
    words = ["forget", "--contact-env", "WHO", "--execute", "--json"]
    status = cli.main([*words, "--home", str(home.path)])
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert status == 0, captured.err
    assert (told["proof"]["clean"], told["proof"]["since"]) == (True, 0)
    assert of("Anna") == []
    assert of("Bert") == bert
    state = HomePaths(home.path).state
    for path in (path for path in state.rglob("*") if path.is_file()):
        assert b"Anna" not in path.read_bytes(), path

    # She goes on talking, and the host tells her old transcript once more.
    old = {
        "role": "user",
        "content": OLD.format("Anna"),
        "timestamp": time.time() - 9e3,
    }
    agents["Anna"].on_session_end([old])
    agents["Anna"].sync_turn("Hello, this is Anna, back from a long holiday.", "Hi")
    eventually(lambda: len(home.turns("whatsapp-dm")) == 4)
    assert [row for row in of("Anna") if "greenhouse" in row] == []
