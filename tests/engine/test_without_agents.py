"""An agent on a database that lacks the migration of agents and delegations."""

from __future__ import annotations

import logging

import psycopg

from hermes_pgmemory.journal import inspect

NOTE = "The printer is on floor 2."
TURN = "Where does the printer stand, and who looks after it?"


def test_everything_else_works_and_delegations_are_kept_aside(home, eventually, caplog):
    with psycopg.connect(home.dsn) as connection:
        connection.execute(
            "DELETE FROM memory_migrations WHERE version LIKE '0003%';"
            "DROP VIEW v_agent_memory;"
            "DROP TABLE memory_agents, memory_agent_edges, memory_maintenance_log"
        )
    with caplog.at_level(logging.WARNING, "hermes_pgmemory"):
        agent = home.agent(gateway_session_key="marketing")
        agent.on_memory_write("add", "memory", NOTE, {})
        agent.on_delegation("look for it", "found", child_session_id="c1")
        agent.sync_turn(TURN, "", session_id="s1")
        eventually(lambda: len(home.turns("marketing")) == 2)
    assert home.entries("marketing") == [NOTE]
    assert "floor 2" in agent.handle_tool_call("recall_memory", {"query": "printer"})
    journal = inspect(home.path / "pgvector" / "journal")
    assert (journal.pending, journal.dead_letters) == (0, 1)
    told = [r.message for r in caplog.records if "lacks 0003_agents" in r.message]
    assert len(told) == 1
