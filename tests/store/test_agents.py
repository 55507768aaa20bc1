from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hermes_pgmemory.models import AgentKind, RecordDelegation, SeeAgent, Theme

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
WORK = Theme("work")


def seen(at, kind=AgentKind.THEME, theme=WORK):
    return SeeAgent(theme=theme, kind=kind, at=at)


def delegation(**more):
    given = {
        "theme": WORK,
        "parent_session_id": "s1",
        "child_session_id": "s2",
        "task": "look it up",
        "at": NOON,
    } | more
    return RecordDelegation(**given)


class TestSightings:
    SPAN = "SELECT agent_identity, kind, first_seen, last_seen FROM memory_agents"

    def test_span_the_first_and_the_last_in_any_order(self, memory):
        memory.apply(seen(NOON), seen(NOON + HOUR), seen(NOON - HOUR))
        memory.apply(seen(NOON))
        assert memory.query(self.SPAN) == [("work", "theme", NOON - HOUR, NOON + HOUR)]
        memory.apply(seen(NOON - 2 * HOUR))
        (span,) = memory.query(self.SPAN)
        assert span == ("work", "theme", NOON - 2 * HOUR, NOON + HOUR)

    def test_the_latest_knows_the_kind(self, memory):
        memory.apply(seen(NOON, AgentKind.WORKER))
        memory.apply(seen(NOON - HOUR, AgentKind.DM))
        assert memory.query("SELECT kind FROM memory_agents") == ["worker"]
        memory.apply(seen(NOON + HOUR, AgentKind.GROUP))
        assert memory.query("SELECT kind FROM memory_agents") == ["group"]

    def test_are_kept_per_theme(self, memory):
        memory.apply(seen(NOON), seen(NOON, theme=Theme("home")))
        assert len(memory.query(self.SPAN)) == 2


class TestDelegations:
    def test_are_kept_once(self, memory):
        memory.apply(delegation(), delegation())
        memory.apply(delegation(metadata={"n": 1}))
        assert memory.query(
            "SELECT parent_identity, child_identity, parent_session_id,"
            " child_session_id, kind, task, ts, attrs FROM memory_agent_edges"
        ) == [("work", None, "s1", "s2", "delegated", "look it up", NOON, {})]

    def test_two_tasks_for_one_session_are_two(self, memory):
        memory.apply(
            delegation(), delegation(task="x" * 5000), delegation(at=NOON + HOUR)
        )
        assert len(memory.query("SELECT id FROM memory_agent_edges")) == 3


def test_the_view_counts_what_each_theme_holds(memory):
    memory.apply(
        seen(NOON),
        memory.add("one"),
        memory.add("two"),
        memory.turn("three"),
        memory.turn("four", theme=Theme("unseen")),
        seen(NOON, theme=Theme("silent"), kind=AgentKind.WORKER),
    )
    memory.query("UPDATE memory_entries SET retired_at = now() WHERE content = 'two'")
    assert memory.query("SELECT * FROM v_agent_memory") == [
        ("silent", "worker", 0, 0, NOON, NOON),
        ("unseen", None, 0, 1, None, None),
        ("work", "theme", 1, 1, NOON, NOON),
    ]
