"""One turn per process: what is said on the command line survives its end."""

from __future__ import annotations

import json
from pathlib import Path

from _quickstart.host import Home
from host_kit import UNNAMED, Database, MakeHome, Proxy, call

QUESTION = "Here is something of substance, said on the command line."
ADD = call("memory", action="add", target="memory", content="Bees sleep at night.")


def everything_is_stored(home: Home, database: Database) -> None:
    """Check that after a replay all is there; the host's records tell nothing new."""
    where = ("--home", str(home.path))
    replay = home.run("hermes-pgvector", "replay", *where)
    assert replay.returncode == 0, replay.stderr
    assert database.entries(UNNAMED) == ["Bees sleep at night."]
    for source in ("sessions", "files"):
        words = ("import", source, "--json", *where)
        told = json.loads(home.run("hermes-pgvector", *words).stdout)
        assert (told["new"], told["there"] > 0) == (0, True)


def test_the_last_turn_of_a_chat_is_stored_or_journaled_when_the_process_ends(
    host_home: Home, database: Database
):
    chat = ("hermes", "chat", "-Q", "--yolo", "-q")
    done = host_home.run(*chat, f"{QUESTION}\n{ADD}")
    assert done.returncode == 0, done.stderr
    assert "Understood" in done.stdout
    everything_is_stored(host_home, database)
    assert [role for role, _ in database.turns(UNNAMED)] == ["user", "assistant"]
    assert database.turns(UNNAMED)[0][1].startswith(QUESTION)


def test_the_next_one_stores_its_own_and_what_the_last_one_could_not(
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
    second = home.run("hermes", "-z", f"{QUESTION} And now it is back.\n{ADD}")
    assert second.returncode == 0, second.stderr
    assert "Understood" in second.stdout
    assert "Shared memory" not in second.stdout
    everything_is_stored(home, database)
    assert len(database.turns(UNNAMED)) == 4
    spoken = [text for role, text in database.turns(UNNAMED) if role == "user"]
    now, away = sorted(spoken)
    assert now.startswith(f"{QUESTION} And now it is back.")
    assert away == f"{QUESTION} The database is away."
