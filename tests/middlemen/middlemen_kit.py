"""What stands between agents and their database, and agents that do not mind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from _servers.cluster import Cluster, rows
from _servers.keeping import eventually
from _servers.pooler import ADMIN, Pooler, program

import looking
from hermes_pgmemory.provider import PgvectorProvider

__all__ = ["ADMIN", "Cluster", "Pooler", "eventually", "program", "rows"]


class Home:
    """One HERMES_HOME and its agents."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.agents: list[PgvectorProvider] = []
        path.mkdir()

    def configure(self, **settings: Any) -> None:
        config = {"plugins": {"pgvector": settings}}
        text = json.dumps(config, ensure_ascii=False)  # but for escapes, JSON is YAML
        (self.path / "config.yaml").write_text(text)

    def agent(self, theme: str, **kwargs: Any) -> PgvectorProvider:
        agent = PgvectorProvider()
        self.agents.append(agent)
        said = {"platform": "cli", "agent_context": "primary"} | kwargs
        agent.initialize(
            "s1", hermes_home=str(self.path), gateway_session_key=theme, **said
        )
        return agent


def add(agent: PgvectorProvider, content: str) -> None:
    """Have the agent's memory tool add a note."""
    agent.on_memory_write("add", "memory", content, {})


def recall(agent: PgvectorProvider, query: str) -> tuple[list[str], str | None]:
    """Return what the recall tool finds, and why that may not be all."""
    answer = json.loads(
        agent.handle_tool_call("recall_memory", {"query": query, "limit": 20})
    )
    return [hit["content"] for hit in answer["results"]], answer.get("degraded")


def contents(dsn: str) -> list[str]:
    """Return the notes in the database, in the order of their arrival."""
    return looking.column(dsn, "SELECT content FROM memory_entries ORDER BY id")
