"""The host starts our MCP server like any other, from `mcp_servers`."""

from __future__ import annotations

import json
import sys

from _quickstart.chat_model import ChatModel
from _quickstart.host import Home
from host_kit import Database, call, tool_answers
from ruamel.yaml import YAML

NOTE = "Halden Freight is paid on the first of the month."


def test_what_its_agent_remembers_by_it_is_kept_and_recalled(
    host_home: Home, database: Database, chat_model: ChatModel
):
    file = host_home.path / "config.yaml"
    config = YAML(typ="safe").load(file)
    words = ["-m", "hermes_pgmemory", "mcp", "--home", str(host_home.path)]
    server = {
        "command": sys.executable,
        "args": [*words, "--theme", "procurement"],
        "env": dict(host_home.extra_env),
    }
    # The host goes on without the tools of a server that takes longer to start.
    patient = {"mcp_discovery_timeout": 30}
    file.write_text(json.dumps({**config, **patient, "mcp_servers": {"notes": server}}))
    remember = call("mcp__notes__remember", text=NOTE)
    recall = call("mcp__notes__recall_memory", query="When is Halden paid?")
    # A one-shot turn does not wait for servers at all.
    said = f"by MCP, please\n{remember}\n{recall}"
    done = host_home.run("hermes", "chat", "-Q", "-q", said)
    assert done.returncode == 0, done.stderr
    assert database.entries("procurement") == [NOTE]
    assert NOTE in tool_answers(chat_model, "by MCP, please")[-1]
