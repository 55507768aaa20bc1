"""What the tests of moving share: databases that are filled and looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import looking
from command_kit import Ran
from hermes_pgmemory.models import (
    Accepted,
    AddEntry,
    AddTurn,
    AgentKind,
    RecordDelegation,
    Role,
    Scope,
    SeeAgent,
    Subject,
    Target,
    Theme,
    Vector,
    Write,
)
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import Store

START = datetime(2026, 1, 1, 3, 4, 5, 678901, tzinfo=UTC)
WORK, DM = Theme("work"), Theme("whatsapp-dm")
ALICE = Subject("a1" * 16)
HOSTILE = (
    "line\r\nends\rof every\nkind\t",
    "  edges of space \u00a0",
    "\x01\x02 bell \x07 escape \x1b[31m delete \x7f",
    "emoji 👩‍👩‍👧‍👦 \U0001f1e9\U0001f1ea e\u0301 \u202eleft\u202c \u2028 \u0085 ☃",
    'quotes " \\ \\n \' {"row":"end"} §\n§\nand a delimiter',
    "wörter und mehr " * 9,
)
LONG = "long " + "wörter und mehr " * 12_500
COLUMNS = {
    "memory_entries": """agent_identity, target, content, content_hash, subject,
        source, created_at, updated_at, retired_at, metadata, files, missing_from, tsv,
        embedding::text""",
    "conversations": """agent_identity, session_id, parent_session_id, role, content,
        ts, turn_key, embed, subject, metadata, tsv, embedding::text,
        CASE WHEN embedding IS NOT NULL THEN text_hash END""",
    "memory_agents": "agent_identity, kind, first_seen, last_seen, attrs",
    "memory_agent_edges": """parent_identity, child_identity, parent_session_id,
        child_session_id, kind, task, task_hash, subject, ts, attrs""",
}


@dataclass
class Database:
    """One database, and the home that is configured for it."""

    dsn: str
    home: Path
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store(self.dsn, model="test", pool_size=1)

    @property
    def key(self) -> str:
        return self.store.verify(timeout_s=10).subject_key

    def empty(self, *, key: str) -> None:
        """Forget everything but the schema."""
        self.query(
            "TRUNCATE memory_entries, conversations, memory_agents,"
            " memory_agent_edges, memory_journal_positions, memory_maintenance_log,"
            " memory_entry_history, memory_forgotten"
            " RESTART IDENTITY"
        )
        self.query("UPDATE memory_models SET name = 'test'")
        self.query(
            "UPDATE memory_settings SET value = to_jsonb(%s::text)"
            " WHERE key = 'subject_key'",
            key,
        )

    def apply(self, *writes: Write, vectors: dict[int, Vector] | None = None) -> None:
        epoch = str(uuid4())
        batch = [
            Accepted(epoch=epoch, position=place, write=write)
            for place, write in enumerate(writes, 1)
        ]
        self.store.apply(batch, vectors or {}, timeout_s=10)

    def query(self, statement: str, *parameters: Any) -> list[Any]:
        """Rows of one column come as a plain list."""
        return looking.column(self.dsn, statement, parameters or None)

    def rows(self, *, where: str = "true") -> dict[str, list[Any]]:
        """Everything of each table but its ids, in an order that is always the same."""
        return {
            table: sorted(
                self.query(f"SELECT {columns} FROM {table} WHERE {where}"), key=repr
            )
            for table, columns in COLUMNS.items()
        }

    def entries(self) -> list[Any]:
        return self.query(
            "SELECT agent_identity, target, content FROM memory_entries"
            " ORDER BY agent_identity, target, content"
        )

    def turns(self) -> list[Any]:
        return self.query(
            "SELECT agent_identity, role, content FROM conversations ORDER BY ts, id"
        )

    def fill(self, *more: Write) -> None:
        """Write what is hard to move: hostile texts, old times, secrets of contacts."""
        writes, vectors = hostile_writes()
        writes += more
        self.apply(*writes, vectors=vectors)
        self.query(
            "UPDATE memory_entries SET retired_at = %s, missing_from = '{f1}',"
            " updated_at = %s WHERE content LIKE 'line%%'",
            START + timedelta(days=9, microseconds=7),
            START + timedelta(days=3),
        )
        self.query("UPDATE memory_entries SET files = '{f1,f2}' WHERE source = 'f1'")
        self.query('UPDATE memory_agents SET attrs = \'{"by": ["hand"]}\'')
        self.query(
            "UPDATE memory_agent_edges SET child_identity = 'helper', kind = 'asked'"
            " WHERE task LIKE 'second%'"
        )

    def answers(self, question: str, vector: Vector) -> list[Any]:
        """What a recall of each kind finds, without ids."""
        everyone = Scope(theme=None, subject=None)
        asked = Question(text=question, vector=vector, scope=everyone, limit=5)
        entries = self.store.search_entries(asked, timeout_s=10)
        turns = self.store.search_turns(asked, timeout_s=10)
        return [
            *((e.content, e.similarity, round(e.score, 9)) for e in entries),
            *((t.content, round(t.score, 9), t.before, t.after) for t in turns),
        ]


def hostile_writes() -> tuple[list[Write], dict[int, Vector]]:
    writes: list[Write] = []
    for number, text in enumerate(HOSTILE):
        at = START + timedelta(hours=number)
        source = f"f{number % 3}"
        note = {"platform": "cli", "n": number, "on": True, "no": None}
        writes += [
            AddEntry(
                theme=WORK,
                target=Target.MEMORY,
                content=text,
                at=at,
                source=source if number % 2 else None,
                metadata=note,
            ),
            turn(text, at=at, ordinal=1),
            turn(text, at=at + timedelta(minutes=1), ordinal=2, embed=False),
            turn(text, at=at, role=Role.ASSISTANT, theme=Theme("Straße/≠ 😀")),
        ]
    writes += [
        AddEntry(
            theme=DM, subject=ALICE, target=Target.USER, content="likes tea", at=START
        ),
        turn("I like tea, and I said so", theme=DM, subject=ALICE, session_id="chat-1"),
        turn("said the fourth time, the others are pruned", ordinal=4),
        turn("by no number that anybody counted", ordinal=77_777),
        SeeAgent(theme=WORK, kind=AgentKind.THEME, at=START),
        SeeAgent(theme=WORK, kind=AgentKind.THEME, at=START + timedelta(days=2)),
        SeeAgent(theme=Theme("idle"), kind=AgentKind.WORKER, at=START),
        edge("first task"),
        edge("second task"),
        edge("for Alice", theme=DM, subject=ALICE),
    ]
    vectors = {
        place: [float(place % 5 + 1), 0.5, float(place % 3)]
        for place, write in enumerate(writes)
        if isinstance(write, AddEntry | AddTurn) and place % 4
    }
    return writes, vectors


def turn(content: str, **more: Any) -> AddTurn:
    given = {
        "theme": WORK,
        "session_id": "s1",
        "role": Role.USER,
        "ordinal": 1,
        "at": START,
        "context": "what was said before",
        "metadata": {"platform": "cli"},
    } | more
    return AddTurn(content=content, **given)


def edge(task: str, **more: Any) -> RecordDelegation:
    given = {
        "theme": WORK,
        "parent_session_id": "s1",
        "child_session_id": "s2",
        "at": START,
    } | more
    return RecordDelegation(task=task, **given)


def doing(
    run: Callable[..., Ran], database: Database, *words: object
) -> dict[str, Any]:
    """Rehearse, do and repeat an import; return what it did."""
    rehearsed = run(database, "import", *words, "--json")
    assert rehearsed.status == 0, rehearsed.err
    done = run(database, "import", *words, "--json", "--execute").data
    assert {**done, "executed": False} == rehearsed.data
    again = run(database, "import", *words, "--json", "--execute").data
    assert (again["new"], again["there"]) == (0, done["new"] + done["there"])
    return done
