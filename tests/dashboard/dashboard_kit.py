"""What the tests of the dashboard share: a fleet with a past, and a plain client."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from maintenance_kit import Memory

from hermes_pgmemory.codec import encode
from hermes_pgmemory.dashboard import Serving
from hermes_pgmemory.journal import Journal
from hermes_pgmemory.models import (
    AgentKind,
    RecordDelegation,
    ReplaceEntry,
    Role,
    SeeAgent,
    Subject,
    Target,
    Theme,
    Write,
)
from hermes_pgmemory.store import Store

SECRET = "Her shoe size is 38, she told in confidence"
HOSTILE = (
    "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>"
    '"><svg onload="window.pwned = 3"></svg> {{ 7 * 7 }} javascript:alert(1)'
)
HOSTILE_SESSION = '"><script>window.pwned = 4</script>'
TEA = "Tea is served at five in the small hall, on weekdays only."
NEWER = "Our readers now open the newsletter on Sundays. <b>New</b> since March."
NEAR = [1.0, 0.5, 0.5]
"""What the endpoint makes of any question."""
FAR = [0.1, -0.9, 0.4]
WHO = Subject("0123456789abcdef0123456789abcdef")
MARKETING, RESEARCH, MESSAGES = (
    Theme("marketing"),
    Theme("research"),
    Theme("whatsapp-dm"),
)
NOTES = (
    "The spring campaign starts on 3 March; Ana owns the budget of 40,000 EUR.",
    "Press releases go through legal first, and need two working days there.",
    "Our readers open the newsletter mostly on Tuesday mornings.",
    "The brand colour is a dark teal. Orange is for warnings only.",
)
TALKS = (
    ("When is tea?", "At five, in the small hall."),
    (
        "Who owns the budget of the spring campaign this year?",
        "Ana does. She signed it off last week: a third for print, the rest for web.",
    ),
    ("And the newsletter?", "Tuesday morning, as always."),
)


@dataclass(frozen=True)
class Fleet:
    """Where the fleet lives."""

    home: Path
    dsn: str
    embed_url: str


def furnish(home: Path, dsn: str, embed_url: str) -> Fleet:
    """Give a home and its database a month's past."""
    section = {"dsn": dsn, "embed_url": embed_url, "embed_model": "test"}
    config = {"memory": {"provider": "pgvector"}, "plugins": {"pgvector": section}}
    (home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    store = Store(dsn, model="test")
    memory = Memory(store, dsn)
    now = datetime.now(UTC)
    _remember(memory, now)
    _talk(memory, now)
    _delegate(memory, now)
    replaced = ReplaceEntry(
        theme=MARKETING,
        target=Target.MEMORY,
        old_text="readers open",
        content=NEWER,
        at=now - timedelta(minutes=5),
    )
    memory.apply(replaced)
    memory.query(
        "UPDATE memory_entries SET retired_at = now() WHERE content ^@ 'Press'"
    )
    store.close()
    _journal(home, now)
    return Fleet(home, dsn, embed_url)


def _remember(memory: Memory, now: datetime) -> None:
    writes: list[Write] = [
        SeeAgent(theme=theme, kind=kind, at=now - timedelta(minutes=4))
        for theme, kind in (
            (MARKETING, AgentKind.THEME),
            (RESEARCH, AgentKind.THEME),
            (MESSAGES, AgentKind.DM),
        )
    ]
    memory.apply(*writes)
    notes = [
        memory.entry(text, theme=MARKETING, at=now - timedelta(hours=5 * n + 1))
        for n, text in enumerate(NOTES)
    ]
    memory.apply(
        memory.entry(
            TEA, theme=MARKETING, at=now - timedelta(days=9), target=Target.USER
        ),
        memory.entry(HOSTILE, theme=RESEARCH, at=now - timedelta(hours=2)),
        memory.entry(SECRET, theme=MESSAGES, subject=WHO, at=now - timedelta(hours=3)),
        *notes,
        *(
            memory.entry(
                f"Sample {n} of the assay held for {n % 17 + 3} days at 4 °C.",
                theme=RESEARCH,
                at=now - timedelta(hours=n * 7),
            )
            for n in range(55)
        ),
        vectors={0: NEAR, 1: FAR, 2: NEAR, 3: [1.0, 0.1, 0.4]},
    )


def _talk(memory: Memory, now: datetime) -> None:
    def said(session: str, role: Role, text: str, at: datetime, **more: Any) -> Write:
        return memory.turn(
            text, session_id=session, role=role, at=at, **{"theme": MARKETING} | more
        )

    writes: list[Write] = []
    for day in range(12):
        session = f"agent:main:webhook:{day:02}-5a1c0b7e9d24"
        for n, (question, answer) in enumerate(TALKS):
            at = now - timedelta(hours=day * 11, minutes=50 - 7 * n)
            writes.append(said(session, Role.USER, question, at))
            writes.append(
                said(session, Role.ASSISTANT, answer, at + timedelta(seconds=9))
            )
    at = now - timedelta(hours=1)
    writes.append(said(HOSTILE_SESSION, Role.USER, HOSTILE, at, theme=RESEARCH))
    for n in range(6):
        late = at + timedelta(minutes=n)
        private = {"theme": MESSAGES, "subject": WHO}
        writes.append(said("dm-1", Role.USER, f"{SECRET}, part {n}", late, **private))
    memory.apply(*writes, vectors={0: NEAR, 1: NEAR, 2: FAR})


def _delegate(memory: Memory, now: datetime) -> None:
    def handed(parent: str, child: str, task: str, **more: Any) -> RecordDelegation:
        given = {"theme": MARKETING, "at": now - timedelta(minutes=40)} | more
        return RecordDelegation(
            parent_session_id=parent, child_session_id=child, task=task, **given
        )

    first = "agent:main:webhook:00-5a1c0b7e9d24"
    memory.apply(
        handed(first, "child-budget-7f3a", "Compare the budget with last year's"),
        handed(first, "child-press-11c9", "Draft the press release"),
        handed("child-press-11c9", "child-legal-b3d0", "Check the names of products"),
        handed(HOSTILE_SESSION, "child-x", HOSTILE, theme=RESEARCH),
        handed("dm-1", "child-dm", SECRET, theme=MESSAGES, subject=WHO),
    )


def _journal(home: Path, now: datetime) -> None:
    (home / "pgvector").mkdir()
    journal = Journal.claim(home / "pgvector" / "journal", quota_bytes=1 << 20)
    memory = Memory(None, "")
    refused = memory.entry(f"{HOSTILE} was refused", theme=RESEARCH, at=now)
    hidden = memory.entry(SECRET, theme=MESSAGES, subject=WHO, at=now)
    waits = memory.entry("A note that waits", theme=MARKETING, at=now)
    journal.append([encode(one) for one in (refused, hidden, waits)])
    for record in journal.pending(2):
        journal.bury(record, "invalid byte sequence (CharacterNotInRepertoire)")
    journal.close()


class Client:
    """A browser without a window: keeps cookies, follows nothing."""

    def __init__(self, serving: Serving) -> None:
        self.port = serving.port
        self.headers: dict[str, str] = {}

    def ask(
        self, path: str, *, method: str = "GET", **headers: str
    ) -> tuple[http.client.HTTPResponse, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, headers={**self.headers, **headers})
            answer = connection.getresponse()
            return answer, answer.read().decode()
        finally:
            connection.close()

    def enter(self, url: str) -> Client:
        parts = urlsplit(url)
        answer, _ = self.ask(f"{parts.path}?{parts.query}")
        assert answer.status == 303
        self.headers["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
        return self

    def page(self, path: str) -> str:
        answer, text = self.ask(path)
        assert answer.status == 200, text
        return text
