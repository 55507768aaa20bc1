"""What one process needs for one HERMES_HOME: the composition root.

Providers come and go (the API server builds one per request and never shuts it
down); what must outlive them lives here: the journal, the writer's thread, the
connection pool, what sessions have said. `engines` shares them.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from hermes_pgmemory import services, telemetry
from hermes_pgmemory.batcher import Batcher, WriterPolicy
from hermes_pgmemory.breaker import CircuitBreaker
from hermes_pgmemory.codec import encode
from hermes_pgmemory.config import Settings
from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.errors import JournalUnavailable, SchemaError
from hermes_pgmemory.healing import Healer
from hermes_pgmemory.housekeeping import Adopter, FileMirror, retry_dead_letters
from hermes_pgmemory.journal import Journal
from hermes_pgmemory.lineage import Lineage
from hermes_pgmemory.metrics import WRITES
from hermes_pgmemory.model_watch import ModelWatch
from hermes_pgmemory.models import AgentKind, SeeAgent, Theme, Write
from hermes_pgmemory.notices import Notices
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.private_notes import PrivateNotes
from hermes_pgmemory.prompts import Prompts
from hermes_pgmemory.recall import Recall
from hermes_pgmemory.store import DatabaseFacts
from hermes_pgmemory.store.failures import lacking
from hermes_pgmemory.subjects import Veil, known_key, remember_key, unsealed, veil_of
from hermes_pgmemory.syncer import Syncer
from hermes_pgmemory.turn_ledger import TurnLedger
from hermes_pgmemory.writer import Chore, Writer

SHUTDOWN_S: Final = 2.0
"""Seconds the last shutdown may drain. The host allows 5; to end threads, `ENDING_S`
twice, and connections, `store.connection.CLOSE_S`, takes more, whatever hangs."""
ENDING_S: Final = 0.5
FIRST_MEETING_S: Final = 5.0
VERIFY_TIMEOUT_S: Final = 5.0
SEE_EVERY_S: Final = 60.0
_ACCEPTED: Final = WRITES.labels(outcome="accepted")
_REFUSED: Final = WRITES.labels(outcome="refused")

log = logging.getLogger("hermes_pgmemory")


class Engine:
    """Everything one process needs for one HERMES_HOME. Thread-safe."""

    def __init__(self, paths: HomePaths, settings: Settings) -> None:
        """Claim a journal and wire the rooms; nothing is started or reached yet.

        Raises:
            JournalUnavailable: The journal's folder cannot be used.
        """
        self.paths = paths
        self.settings = settings
        self.pid = os.getpid()
        self.turns = TurnLedger()
        paths.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.lineage = Lineage(paths.state)
        quota = settings.journal_quota_mb << 20
        self._journal = Journal.claim(paths.journal, quota_bytes=quota)
        dsn = settings.dsn.get_secret_value()
        self.server = None if dsn else EmbeddedServer(paths.server)
        self._embedder = services.embedder(settings)
        self._store = services.store(
            self.server.dsn if self.server else dsn,
            settings.dsn_read.get_secret_value(),
            model=self._embedder.name,
        )
        self._model_watch = ModelWatch(self._embedder)
        self._settled = threading.Event()
        self._closing = threading.Event()
        self._library_breaker = CircuitBreaker()
        self._embed_breaker = CircuitBreaker()
        self._batcher = self._make_batcher()
        self._syncer = Syncer(self._journal)
        self.notices = Notices(self._journal)
        self.writer = self._make_writer()
        self.recall = self._make_recall()
        self._mutex = threading.Lock()
        self.private_notes = PrivateNotes(paths.state)
        self._files = FileMirror(paths, self._store, self.private_notes)
        self._adopter = Adopter(
            paths.journal, self._batcher, quota_bytes=quota, give_up=self._closing
        )
        self._healer = Healer(
            self._store, self._batcher, when_misfit=self._model_watch.refused
        )
        self._chores = self._make_chores()
        self._told_what_lacks = False
        self.prompts = Prompts(paths)
        self._seen: dict[Theme, float] = {}

    def _make_batcher(self) -> Batcher:
        settings = self.settings
        policy = WriterPolicy(
            batch=min(64, settings.write_queue_maxsize),
            embed_on_write=settings.embed_on_write,
            embed_retries=settings.embed_write_retries,
            embed_backoff_s=settings.embed_write_backoff,
        )
        return Batcher(
            self._store,
            self._embedder,
            self._embed_breaker,
            policy,
            may_embed=lambda: self._model_watch.reason is None,
            when_misfit=self._model_watch.refused,
            unsealed=partial(unsealed, self.paths),
        )

    def _make_writer(self) -> Writer:
        return Writer(
            self._journal,
            self._batcher,
            before=self._prepare,
            when_idle=self._when_idle,
            when_outage=self.notices.began,
            when_over=self.notices.over,
        )

    def _make_recall(self) -> Recall:
        return Recall(
            self._store,
            self._embedder,
            library_breaker=self._library_breaker,
            embed_breaker=self._embed_breaker,
            settled=self._wait_until_settled,
            half_life_days=self.settings.decay_half_life_days,
        )

    def _make_chores(self) -> list[Chore]:
        chores = [
            Chore(
                "taking over what dead processes left", self._adopter.run_now_and_then
            ),
            Chore("looking whether the model fits again", self._watch_model),
            Chore("following MEMORY.md and USER.md", self._follow),
        ]
        if self.settings.embed_on_write:
            chores.append(Chore("embedding what has no vector", self._healer.run))
        return chores

    # -- writing -------------------------------------------------------------

    def submit(self, writes: Iterable[Write]) -> None:
        """Accept *writes*, all or none: once this returns they are kept.

        Raises:
            JournalUnavailable: None of *writes* was accepted.
        """
        records = [encode(write) for write in writes]
        if not records:
            return
        try:
            self._journal.append(records)
        except JournalUnavailable:
            _REFUSED.inc(len(records))
            raise
        _ACCEPTED.inc(len(records))
        self._syncer.wake()
        self.writer.wake()

    def see_agent(self, theme: Theme, kind: AgentKind) -> None:
        """Note in the registry that *theme* is alive, once a minute at most."""
        now = time.monotonic()
        with self._mutex:
            if now - self._seen.get(theme, -SEE_EVERY_S) < SEE_EVERY_S:
                return
            self._seen[theme] = now
        self.submit([SeeAgent(theme=theme, kind=kind, at=datetime.now(UTC))])

    @property
    def journal_depth(self) -> int:
        """How many accepted writes wait to be stored."""
        return self._journal.depth

    @property
    def waiting(self) -> str | None:
        """Say in one line why the newest writes cannot be found yet, if so."""
        outage, depth = self.writer.outage, self.journal_depth
        if outage is None or not depth:
            return None
        return f"the last {depth} writes are not searchable yet: {outage.reason}"

    def veil(self) -> Veil:
        """Return what hides contacts.

        A home that has never met its database waits for that, once and briefly:
        until the key is known, a contact recalls nothing.
        """
        if known_key(self.paths) is None:
            self._settled.wait(FIRST_MEETING_S)
        return veil_of(self.paths)

    def retry_dead_letters(self, *, timeout_s: float) -> bool:
        """Offer what the database refused to it again; see `housekeeping`."""
        # The writer's own batcher is the writer's thread's.
        batcher = self._make_batcher()
        return retry_dead_letters(self.paths.journal, batcher, timeout_s=timeout_s)

    # -- life ----------------------------------------------------------------

    def start(self) -> None:
        """Start the threads; a second call does nothing."""
        with self._mutex:
            if not self._syncer.started:
                telemetry.join(self.paths.metrics, self._trouble)
                self._syncer.start()
                self.writer.start()

    def follow_files(self, theme: Theme) -> None:
        """Follow MEMORY.md and USER.md in the background, if they have changed.

        Two calls of `stat` here. What they hold and no row does is for *theme*.
        """
        if self._files.wanted_for(theme):
            self.writer.wake()

    def close(self, *, timeout_s: float = SHUTDOWN_S) -> None:
        """Drain for at most *timeout_s*, then stop; the rest stays in the journal."""
        if self._syncer.started:
            # Text first: a row without a vector is searchable and healed later.
            self._batcher.embed_no_more()
            self.writer.flush(timeout_s=timeout_s)
        self._closing.set()
        self._syncer.end()
        # A batch in flight keeps what it works with; the thread closes it then.
        self.writer.stop(timeout_s=ENDING_S, then=self._close_rooms)

    def _close_rooms(self) -> None:
        self._syncer.join(ENDING_S)
        self._store.close()
        self._embedder.close()
        self._journal.close()
        telemetry.leave(self._trouble)

    def abandon(self) -> None:
        """Let go in a forked child: everything here belongs to the parent."""
        self._journal.abandon()

    # -- on the writer's thread ----------------------------------------------

    def _prepare(self) -> None:
        """Bring up what the store needs, or raise what is missing."""
        try:
            self._look_at_database()
        finally:
            self._settled.set()
        self._library_breaker.reset()
        self._adopter.run()

    def _look_at_database(self) -> None:
        if self.server is not None:
            if not self.paths.server.is_dir():
                raise SchemaError("no database yet: run `hermes-pgvector setup`")
            self.server.ensure_running()
        facts = self._store.verify(timeout_s=VERIFY_TIMEOUT_S, whole=False)
        remember_key(self.paths, facts.subject_key)
        self._tell_what_lacks(facts)
        if self._model_watch.compare(facts.model):
            self._healer.begin_anew()

    def _tell_what_lacks(self, facts: DatabaseFacts) -> None:
        if facts.lacks and not self._told_what_lacks:
            log.warning("delegations are put aside: %s", lacking(facts.lacks))
        self._told_what_lacks = bool(facts.lacks)

    def _wait_until_settled(self, seconds: float) -> str | None:
        self._model_watch.recalling()
        self._settled.wait(seconds)
        return self._model_watch.reason

    def _when_idle(self) -> float | None:
        """Do the chores; return when to come back, in seconds."""
        if self._closing.is_set():
            return None
        waits = [chore.run() for chore in self._chores]
        return min(wait for wait in waits if wait is not None)

    def _watch_model(self) -> float | None:
        if self._model_watch.is_due():
            self._look_at_database()
        return self._model_watch.again_s

    def _follow(self) -> float | None:
        return self._files.run(self.submit)

    def _trouble(self) -> dict[str, str]:
        """Say, by service, why the last try of it failed."""
        breakers = {"database": self._library_breaker, "embedder": self._embed_breaker}
        return {
            name: str(breaker.failure)
            for name, breaker in breakers.items()
            if breaker.failure is not None
        }
