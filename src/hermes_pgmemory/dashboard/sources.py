"""Where the pages' contents come from; owns what has to be closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from hermes_pgmemory import journal, survey
from hermes_pgmemory.config import Settings
from hermes_pgmemory.dashboard.asked import Where
from hermes_pgmemory.dashboard.watched import Watched
from hermes_pgmemory.dead_letters import Shown, shown
from hermes_pgmemory.journal import JournalStatus
from hermes_pgmemory.models import EntryHit, Scope, Theme, ThemeCount, TurnHit
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.reading import Reader
from hermes_pgmemory.recall import Answer, Deadline
from hermes_pgmemory.store.dashboard import Views
from hermes_pgmemory.store.history import Change
from hermes_pgmemory.store.seen import Hour

DAYS: Final = 30
"""How far back activity is counted."""
COUNT_S: Final = 60.0
"""Seconds that counting everything may take, in the background."""
VERIFY_S: Final = 5.0
SEARCH_S: Final = 6.0
"""Seconds that a search may take."""
FOUND: Final = 15
"""Hits of either kind."""
PATIENCE_S: Final = 0.15
"""Seconds that a page waits for what was never counted before."""
LETTERS: Final = 200
"""Dead letters shown at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the fleet holds, at one moment."""

    themes: Sequence[ThemeCount]
    private: Mapping[str, int]
    """By theme, how many rows belong to one contact."""
    hours: Sequence[Hour]
    since: datetime
    """The beginning of the first of the hours that were counted."""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a question found."""

    entries: Answer[EntryHit] | None = None
    """None where they were not searched."""
    turns: Answer[TurnHit] | None = None

    @property
    def degraded(self) -> list[str]:
        """What is missing from the answers, in lines for people."""
        told = [one.degraded for one in (self.entries, self.turns) if one]
        return list(dict.fromkeys(line for line in told if line))


class Sources:
    """Everything that the pages tell of one HERMES_HOME. Thread-safe."""

    def __init__(
        self, paths: HomePaths, settings: Settings, dsn: str, *, show_private: bool
    ) -> None:
        """Prepare; nothing connects and no thread starts yet.

        Args:
            paths: Where the journal is.
            settings: Which model embeds a question, and how old memories fade.
            dsn: The database, or a standby of it: nothing is written to it.
            show_private: Whether texts that belong to a contact are read.

        Raises:
            ConfigError: The embedder or *dsn* cannot be used.
        """
        self._paths = paths
        self._reader = Reader(settings, dsn)
        self._store = self._reader.store
        self.show_private = show_private
        self.counted = Watched(self._count, name="pgmemory-count")
        self.health = Watched(self._survey, name="pgmemory-health")

    def look_ahead(self) -> None:
        """Begin to find out what takes long, before somebody wants to know."""
        self.counted.latest(patience_s=0)
        self.health.latest(patience_s=0)

    def close(self) -> None:
        """Let go of everything."""
        self._reader.close()
        self.counted.close(timeout_s=VERIFY_S)
        self.health.close(timeout_s=VERIFY_S)

    @property
    def views(self) -> Views:
        """Pages of rows."""
        return self._store.views

    def find(self, question: str, *, theme: str | None, where: Where) -> Found:
        """Return what a question finds, of one theme or of all; "" finds nothing.

        Rows that belong to a contact are never searched. An outage raises nothing; it
        is told in `degraded`.
        """
        if not question:
            return Found()
        scope = Scope(theme=Theme(theme) if theme else None, subject=None)
        deadline = Deadline(SEARCH_S)
        entries = turns = None
        if where is not Where.TURNS:
            entries = self._reader.recall.entries(
                question, scope=scope, target=None, limit=FOUND, deadline=deadline
            )
        if where is not Where.ENTRIES:
            turns = self._reader.recall.turns(
                question, scope=scope, session_id=None, limit=FOUND, deadline=deadline
            )
        return Found(entries=entries, turns=turns)

    def changes(self, theme: str, *, limit: int, timeout_s: float) -> list[Change]:
        """Return what a theme's entries said before; nothing that is a contact's."""
        return self._store.maintenance.history.read(
            theme, subject=None, match=None, limit=limit, timeout_s=timeout_s
        )

    def themes(self, *, timeout_s: float) -> list[str]:
        """Return every theme that has rows, by name."""
        return self._store.maintenance.themes(timeout_s=timeout_s)

    def journal(self) -> JournalStatus:
        """Look at the journal."""
        return journal.inspect(self._paths.journal)

    def dead_letters(self) -> list[Shown]:
        """Return the first dead letters."""
        return shown(journal.dead_letters(self._paths.journal)[:LETTERS])

    def _survey(self) -> Mapping[str, survey.Part]:
        return survey.look(self._paths.home, count=False).parts

    def _count(self) -> Counted:
        now = datetime.now(UTC)
        since = now.replace(minute=0, second=0, microsecond=0) - timedelta(days=DAYS)
        looked = self._store.maintenance
        themes = self._store.counts(timeout_s=COUNT_S)
        names = [one.theme for one in themes]
        return Counted(
            themes=themes,
            private=self.views.private_rows(timeout_s=COUNT_S),
            hours=self.views.activity(names, since=since, timeout_s=COUNT_S),
            since=since,
            bytes=sum(size.total for size in looked.sizes(timeout_s=COUNT_S)),
        )
