"""Run the real store of hexus: by its environment's Python, knowing nothing of ours."""

import importlib.util
import os
import sys
from pathlib import Path

# Its package imports the host and a local model; its store needs neither.
sys.path.insert(0, str(Path(importlib.util.find_spec("hexus").origin).parent))
sys.modules.pop("hexus", None)

from store import MemoryStore  # noqa: E402

DSN = f"host={os.environ['PG_FOLDER']} dbname={os.environ['PG_DATABASE']} user=postgres"
DM = "agent:main:whatsapp:dm:15550100123"
MARKDOWN = "Deploys on Fridays.\n§\nThe build takes nine minutes."
ENTRIES = [
    ("default", "user", "Prefers tea.", {"session_id": "s1", "platform": "cli"}),
    ("default", "user", "Prefers tea.", {"session_id": "s2", "platform": "cli"}),
    ("default", "memory", "To be forgotten.", {}),
    ("default", "memory", "Lives in Vienna.", {"session_id": "s1"}),
    ("Sales", "memory", "See https://halden.example/prices for prices.", {}),
    (DM, "user", "Calls at night.", {"session_id": DM, "platform": "whatsapp"}),
]
TURNS = [
    ("s1", "default", "user", "What does Halden owe?"),
    ("s2", "Sales", "user", "Who pays late these days?"),
    ("s1", "default", "assistant", "Halden owes 300 — since May. 🐶"),
    ("s1", "default", "user", "What does Halden owe?"),
    ("s1", "default", "user", "ok"),
    (DM, DM, "user", "I like tea, and I said so."),
]
DELEGATIONS = [
    ("s1", "s9", "default", "Look up Halden", "300 since May"),
    (DM, "s8", DM, "Find a tea shop", ""),
]


def main() -> None:
    store = MemoryStore(DSN)
    store.apply_migration_as_admin(admin_dsn=DSN)
    store.ensure_schema()
    file = Path(os.environ["SCRATCH"]) / "MEMORY.md"
    file.write_text(MARKDOWN, encoding="utf-8")
    store.bulk_upsert_md(
        agent_identity="default", target="memory", file_path=file.name, embed_fn=None
    )
    for agent, target, content, metadata in ENTRIES:
        store.add(
            agent_identity=agent, target=target, content=content, metadata=metadata
        )
    long = "Halden wants invoices on paper. " * 40
    store.add(
        agent_identity="Sales",
        target="memory",
        content=long.strip(),
        compressed="Halden wants invoices on paper. [...]",
    )
    mine = {"agent_identity": "default", "target": "memory"}
    store.replace(**mine, old_text="Vienna", new_content="Lives in Graz.")
    store.remove(**mine, old_text="forgotten")
    for session, agent, role, content in TURNS:
        store.append_turn(
            session_id=session, agent_identity=agent, role=role, content=content
        )
    for parent, child, agent, task, result in DELEGATIONS:
        store.record_delegation(
            parent_session_id=parent,
            child_session_id=child,
            agent_identity=agent,
            task=task,
            result=result,
        )
    store.close()


main()
