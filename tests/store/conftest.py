"""A driver that speaks to a store in the words of its tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from threading import Event
from time import monotonic
from typing import Any, LiteralString
from uuid import uuid4

import pytest

import looking
from hermes_pgmemory.models import (
    Accepted,
    AddEntry,
    AddTurn,
    EntryHit,
    RemoveEntry,
    ReplaceEntry,
    Role,
    Scope,
    Target,
    Theme,
    TurnHit,
    Vector,
    Write,
)
from hermes_pgmemory.question import Question
from hermes_pgmemory.store import Store

WORK = Theme("work")
START = datetime(2026, 1, 1, tzinfo=UTC)


class Driver:
    """Builds writes, a minute apart, and applies them as one journal."""

    def __init__(self, store: Store, dsn: str) -> None:
        self.store = store
        self.dsn = dsn
        self.epoch = str(uuid4())
        self.position = 0
        self.now = START

    def tick(self) -> datetime:
        self.now += timedelta(minutes=1)
        return self.now

    def add(self, content: str, **more: Any) -> AddEntry:
        given = {"theme": WORK, "target": Target.MEMORY, "at": self.tick()} | more
        return AddEntry(content=content, **given)

    def replace(self, old_text: str, content: str, **more: Any) -> ReplaceEntry:
        given = {"theme": WORK, "target": Target.MEMORY, "at": self.tick()} | more
        return ReplaceEntry(old_text=old_text, content=content, **given)

    def remove(self, old_text: str, **more: Any) -> RemoveEntry:
        given = {"theme": WORK, "target": Target.MEMORY, "at": self.tick()} | more
        return RemoveEntry(old_text=old_text, **given)

    def turn(self, content: str, **more: Any) -> AddTurn:
        given = {
            "theme": WORK,
            "session_id": "s1",
            "role": Role.USER,
            "ordinal": 1,
            "at": self.tick(),
        } | more
        return AddTurn(content=content, **given)

    def accept(self, *writes: Write) -> list[Accepted]:
        """Journal *writes* after all earlier ones."""
        accepted = []
        for write in writes:
            self.position += 1
            entry = Accepted(epoch=self.epoch, position=self.position, write=write)
            accepted.append(entry)
        return accepted

    def apply(self, *writes: Write, vectors: Mapping[int, Vector] | None = None) -> int:
        return self.store.apply(self.accept(*writes), vectors or {}, timeout_s=10)

    def query(self, statement: LiteralString, *parameters: Any) -> list[Any]:
        """Look past the store: rows of one column come as a plain list."""
        return looking.column(self.dsn, statement, parameters or None)

    def contents(self) -> list[str]:
        return self.query("SELECT content FROM memory_entries ORDER BY id")

    def entries(
        self,
        text: str,
        *,
        target: Target | None = None,
        exclude: Collection[str] = (),
        timeout_s: float = 10,
        **more: Any,
    ) -> list[EntryHit]:
        return self.store.search_entries(
            question(text, **more), target=target, exclude=exclude, timeout_s=timeout_s
        )

    def turns(
        self,
        text: str,
        *,
        session_id: str | None = None,
        timeout_s: float = 10,
        **more: Any,
    ) -> list[TurnHit]:
        return self.store.search_turns(
            question(text, **more), session_id=session_id, timeout_s=timeout_s
        )


def question(text: str, **more: Any) -> Question:
    """Return a question of ten answers, of words alone, to one theme unless told."""
    given: dict[str, Any] = {
        "vector": None,
        "scope": Scope(theme=WORK, subject=None),
        "limit": 10,
    }
    return Question(text=text, **given | more)


@pytest.fixture
def memory(store: Store, dsn: str) -> Driver:
    return Driver(store, dsn)


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Wait until a condition holds; fail after ten seconds."""

    def eventually(holds: Callable[[], bool]) -> None:
        deadline = monotonic() + 10
        never = Event()
        while not holds():
            assert monotonic() < deadline, "it never happened"
            never.wait(0.01)

    return eventually


@pytest.fixture
def contents_of() -> Callable[[Sequence[Any]], list[str]]:
    return lambda hits: [hit.content for hit in hits]


@pytest.fixture
def store_on() -> Iterator[Callable[..., Store]]:
    """Make stores on any DSN; they are closed when the test ends."""
    made: list[Store] = []

    def store_on(dsn: str, **more: Any) -> Store:
        made.append(Store(dsn, **more))
        return made[-1]

    yield store_on
    for store in made:
        store.close()
