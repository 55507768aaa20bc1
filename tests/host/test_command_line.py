"""One turn per process: what is said on the command line survives its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from _quickstart.host import Home
from host_kit import UNNAMED, Database, MakeHome, Proxy, call

COMMANDS = {
    "chat": ("hermes", "chat", "-Q", "--yolo", "-q"),
    "one shot": ("hermes", "-z"),
}
QUESTION = "Here is something of substance, said on the command line."


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_the_last_turn_is_stored_or_journaled_when_the_process_ends(
    host_home: Home, database: Database, command: tuple[str, ...]
):
    add = call("memory", action="add", target="memory", content="Bees sleep at night.")
    done = host_home.run(*command, f"{QUESTION}\n{add}")
    assert done.returncode == 0, done.stderr
    assert "Understood" in done.stdout
    replay = host_home.run("hermes-pgvector", "replay", "--home", str(host_home.path))
    assert replay.returncode == 0, replay.stderr
    assert database.entries(UNNAMED) == ["Bees sleep at night."]
    assert [role for role, _ in database.turns(UNNAMED)] == ["user", "assistant"]
    assert database.turns(UNNAMED)[0][1].startswith(QUESTION)
    # The host's own records of it tell nothing new.
    for source in ("sessions", "files"):
        words = ("import", source, "--json", "--home", str(host_home.path))
        told = json.loads(host_home.run("hermes-pgvector", *words).stdout)
        assert (told["new"], told["there"] > 0) == (0, True)


def test_the_next_process_stores_what_the_last_one_could_not(
    make_home: MakeHome, proxy: Proxy, database: Database, tmp_path: Path
):
    home = make_home(tmp_path / "home", {"dsn": proxy.dsn})
    proxy.shut()
    asked = ("hermes", "chat", "--yolo", "-q", f"{QUESTION} The database is away.")
    first = home.run(*asked)
    assert first.returncode == 0, first.stderr
    assert " ".join(first.stdout.split()).count("new notes wait on this host") == 1
    assert database.turns(UNNAMED) == []
    proxy.open()
    second = home.run("hermes", "-z", f"{QUESTION} And now it is back.")
    assert second.returncode == 0, second.stderr
    assert "Shared memory" not in second.stdout
    home.run("hermes-pgvector", "replay", "--home", str(home.path))
    spoken = [text for role, text in database.turns(UNNAMED) if role == "user"]
    assert sorted(spoken) == [
        f"{QUESTION} And now it is back.",
        f"{QUESTION} The database is away.",
    ]
