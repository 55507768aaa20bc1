"""There and back with the real host: what it was before us, it is after us."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from _quickstart.chat_model import ChatModel

from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE

pytestmark = pytest.mark.xdist_group("install")

CONFIG = """\
# The operator's own file.
memory:   # of the host
    user_profile_enabled: true
    memory_enabled: true   # kept
    provider: ''  # nobody yet

model: {{default: scripted, provider: custom, base_url: '{url}',
        api_key: not-needed, context_length: 200000}}
# the end
"""
TURN = "Here is something to keep for later.\nCALL memory {}"


@pytest.fixture
def chat_model() -> Iterator[ChatModel]:
    with ChatModel() as model:
        yield model


def tools(model: ChatModel) -> set[str]:
    """The tools that the host offered its model last."""
    return {tool["function"]["name"] for tool in list(model.requests)[-1]["tools"]}


def keeping(note: str) -> str:
    return TURN.format(
        json.dumps({"action": "add", "target": "memory", "content": note})
    )


def test_install_talk_uninstall_talk(
    environment: Callable,
    built,
    chat_model: ChatModel,
    new_database: Callable[..., str],
    tmp_path: Path,
):
    dsn, home = new_database(), tmp_path / "home"
    nowhere = "http://127.0.0.1:9"
    host = environment(
        HERMES_HOME=str(home),
        HTTP_PROXY=nowhere,
        HTTPS_PROXY=nowhere,
        NO_PROXY="127.0.0.1,localhost",
        TERM="dumb",
        HERMES_DISABLE_LAZY_INSTALLS="1",
        HERMES_MANAGED_DIR=str(tmp_path / "nowhere"),
        HERMES_PGMEMORY_RUNTIME_DIR=os.environ[RUNTIME_DIR_VARIABLE],
    )
    home.mkdir()
    config = home / "config.yaml"
    config.write_text(CONFIG.format(url=chat_model.url))
    before = config.read_bytes()

    done = host.install("--from", built.wheel, "--", "--dsn", dsn)
    assert done.returncode == 0, done.stderr
    assert config.read_bytes() != before
    hermes = host.path / "bin" / "hermes"
    done = host.run(hermes, "-z", keeping("Bees sleep at night."))
    assert done.returncode == 0, done.stderr
    assert "recall_memory" in tools(chat_model)
    command = host.path / "bin" / "hermes-pgvector"
    assert host.run(command, "replay").returncode == 0
    assert _notes(dsn) == ["Bees sleep at night."]
    memories = (home / "memories" / "MEMORY.md").read_bytes()

    done = host.install("--uninstall")
    assert done.returncode == 0, done.stderr
    assert config.read_bytes() == before
    assert not (home / "plugins" / "pgvector").exists()
    assert not host.can_import()
    assert (home / "memories" / "MEMORY.md").read_bytes() == memories
    done = host.run(hermes, "-z", keeping("Owls do not."))
    assert done.returncode == 0, done.stderr
    assert "Understood" in done.stdout
    assert "pgvector" not in done.stdout + done.stderr
    assert "memory" in tools(chat_model)
    assert "recall_memory" not in tools(chat_model)
    kept = (home / "memories" / "MEMORY.md").read_bytes()
    assert kept == memories + "\n§\nOwls do not.".encode()
    assert _notes(dsn) == ["Bees sleep at night."]


def _notes(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT content FROM memory_entries ORDER BY id")
        return [content for (content,) in rows]
