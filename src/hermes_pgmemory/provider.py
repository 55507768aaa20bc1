"""The host's view of this package: one hook is one step of work.

Each hook passes `fail_soft` once; below it code raises. Hooks may come before a
successful `initialize`, after `shutdown`, and from several threads at once.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory import capture, engines, render, setup, tool_calls, tools
from hermes_pgmemory._host import MemoryProvider, recall_status
from hermes_pgmemory.boundary import fail_soft
from hermes_pgmemory.engine import Engine
from hermes_pgmemory.metrics import RECALL_SECONDS
from hermes_pgmemory.notices import Listener
from hermes_pgmemory.paths import PROVIDER, HomePaths
from hermes_pgmemory.private_notes import asked_for
from hermes_pgmemory.recall import Deadline
from hermes_pgmemory.session import Session
from hermes_pgmemory.settings_docs import host_schema
from hermes_pgmemory.settings_file import update

_BRINGS_TRANSCRIPT: Final = frozenset({"compression", "branch"})
"""Reasons for a switch after which the new session's transcript holds old turns."""
UNAVAILABLE: Final = render.error_json("memory is not available now; see the log")

log = logging.getLogger("hermes_pgmemory")


class PgvectorProvider(MemoryProvider):
    """One agent's memory: who speaks, and a share of the process's engine."""

    name: str = PROVIDER

    def __init__(self) -> None:
        """Make a provider that knows nothing yet; free of side effects."""
        self._mutex = threading.RLock()
        self._session: Session | None = None
        self._engine: Engine | None = None
        self._finalizer: weakref.finalize[..., PgvectorProvider] | None = None
        self._recalled = 0
        self._listener: Listener | None = None

    # -- life ----------------------------------------------------------------

    def is_available(self) -> bool:
        """Say yes: a newcomer needs nothing configured. No I/O."""
        return True

    def unavailable_reason(self) -> str:
        """Say why `is_available` is false; it never is."""
        return ""

    @fail_soft(None)
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Attach to the process's engine for one session of one agent."""
        self._attach(session_id, kwargs)

    @fail_soft(None)
    def initialize_for_inspection(self, session_id: str, **kwargs: Any) -> None:
        """Attach for an agent that only looks: it writes nothing."""
        self._attach(session_id, kwargs | {"agent_context": "inspect"})

    @fail_soft(None)
    def shutdown(self) -> None:
        """Give the engine back; the last one to do so drains and closes it."""
        self._listener = None
        engine = self._let_go()
        if engine is not None:
            engines.release(engine)

    # -- what the agent writes -----------------------------------------------

    @fail_soft(None)
    def on_memory_write(
        self,
        action: str,
        target: str,
        content: str,
        metadata: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Mirror one successful call of the built-in memory tool."""
        session = self._writing()
        if session is None:
            return
        write = capture.entry(
            action,
            target,
            content,
            session.provenance(metadata or {}),
            speaker=session.speaker,
            at=datetime.now(UTC),
        )
        if write is not None:
            engine = self._share(session)
            if session.contact is not None:
                engine.private_notes.add(content)
            engine.submit([write])

    @fail_soft(None)
    def sync_turn(
        self,
        user_content: object,
        assistant_content: object,
        *,
        session_id: str = "",
        messages: Sequence[Mapping[str, Any]] | None = None,
        **_: Any,
    ) -> None:
        """Keep the exchange that has just ended."""
        session = self._writing()
        if session is None:
            return
        engine = self._share(session)
        _note_private(engine, session, messages)
        if not session.settings.sync_turns:
            return
        room = session.room(engine.turns, session_id)
        now = datetime.now(UTC)
        with engine.turns.offered(room.speaker, room.session_id):
            said = (user_content, assistant_content, messages)
            engine.submit(capture.turn(*said, room=room, at=now))

    @fail_soft(None)
    def on_session_end(self, messages: Sequence[Mapping[str, Any]], **_: Any) -> None:
        """Keep what of a whole session is not kept yet; see what became of files."""
        session = self._writing()
        if session is None:
            return
        engine = self._share(session)
        _note_private(engine, session, messages)
        if session.imports_for is not None:
            engine.follow_files(session.imports_for)
        if not session.settings.sync_turns:
            return
        room = session.room(engine.turns)
        now = datetime.now(UTC)
        brought = engine.lineage.of(room.session_id)
        with engine.turns.offered(room.speaker, room.session_id):
            engine.submit(
                capture.transcript(
                    messages or (), room=room, at=now, brought_from=brought
                )
            )

    @fail_soft(None)
    def on_delegation(
        self, task: object, result: object, *, child_session_id: str = "", **_: Any
    ) -> None:
        """Note what was delegated, to which session, and what came back."""
        session = self._writing()
        if session is None:
            return
        engine = self._share(session)
        room = session.room(engine.turns)
        now = datetime.now(UTC)
        child = session.session_named(child_session_id)
        engine.submit(capture.delegation(task, result, child, room=room, at=now))

    @fail_soft(None)
    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reason: str = "",
        **_: Any,
    ) -> None:
        """Go on in another session, or in the same one with a shorter transcript."""
        with self._mutex:
            old = self._now()
            if old is None:
                return
            speaker = old.speaker
            self._session = old.switched(new_session_id, parent_session_id)
            engine, before = self._share(old), speaker.session_id
            engine.turns.settle(speaker, before)
            new = self._session.speaker.session_id
            if reason in _BRINGS_TRANSCRIPT and new != before:
                engine.turns.carry(speaker, before, new)
                engine.lineage.note(
                    new,
                    before,
                    datetime.now(UTC),
                    theme=speaker.theme,
                    subject=speaker.subject,
                )

    # -- what the agent recalls ----------------------------------------------

    @fail_soft("")
    def system_prompt_block(self) -> str:
        """Return the static note on this memory, and note what else is shown."""
        session = self._now()
        if session is None:
            return ""
        speaker = session.speaker
        self._share(session).prompts.note(speaker.theme, speaker.session_id)
        return render.prompt_block(speaker.theme)

    @fail_soft("")
    def prefetch(self, query: str, *, session_id: str = "", **_: Any) -> str:
        """Return the notes that bear on *query*, the question asked now; or ""."""
        session = self._now()
        self._recalled = 0
        if session is None or not query.strip() or not session.settings.prefetch_limit:
            return ""
        engine = self._share(session)
        speaker = session.speaker
        with RECALL_SECONDS.labels(path="prefetch").time():
            answer = engine.recall.entries(
                query,
                scope=tools.own_scope(session.caller),
                target=None,
                limit=session.settings.prefetch_limit,
                deadline=Deadline(session.settings.prefetch_budget_s),
                exclude=engine.prompts.shown(
                    speaker.theme,
                    session.session_named(session_id) or speaker.session_id,
                ),
            )
        floor = session.settings.min_similarity
        hits = [hit for hit in answer.hits if hit.relevance >= floor]
        self._recalled = len(hits)
        return render.ambient(hits, speaker.theme)

    def queue_prefetch(self, query: str, *, session_id: str = "", **_: Any) -> None:
        """Do nothing: what answers the last message does not answer the next."""

    def recall_status(self) -> object | None:
        """Return what newer hosts show of the last prefetch."""
        return recall_status(self.name, self._recalled)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Return the two recall tools; asked for before `initialize`."""
        return json.loads(json.dumps(tools.TOOL_SCHEMAS))

    @fail_soft(UNAVAILABLE)
    def handle_tool_call(
        self, tool_name: str, args: Mapping[str, Any] | None, **_: Any
    ) -> str:
        """Answer a recall tool with JSON text, errors included."""
        session = self._now()
        if session is None:
            return UNAVAILABLE
        engine = self._share(session)
        with RECALL_SECONDS.labels(path="tool").time():
            return tool_calls.answer(
                engine.recall,
                tool_name,
                args or {},
                session.caller,
                waiting=engine.waiting,
            )

    # -- configuration -------------------------------------------------------

    def get_config_schema(self) -> list[dict[str, Any]]:
        """Describe the settings for the host's setup screens."""
        return host_schema()

    def save_config(self, values: Mapping[str, Any], hermes_home: str) -> None:
        """Write *values* below `plugins.pgvector`, leaving the rest as it is."""
        changes = {f"plugins.{PROVIDER}.{key}": value for key, value in values.items()}
        update(HomePaths(Path(hermes_home)).config, changes)

    def post_setup(self, hermes_home: str, config: Mapping[str, Any]) -> None:
        """Run the whole setup; `hermes memory setup pgvector` ends here."""
        del config  # the host's merged view; we edit the file itself
        setup.run_for_people(Path(hermes_home))

    def backup_paths(self) -> list[str]:
        """Return nothing: all our files lie in HERMES_HOME, which is backed up."""
        return []

    # -- below the hooks -----------------------------------------------------

    def _attach(self, session_id: str, kwargs: Mapping[str, Any]) -> None:
        with self._mutex:
            # Whatever fails below, nothing more is written for the agent before.
            self._session = None
            before = self._let_go()
            if before is not None:
                engines.forget(before)
            session = Session.begin(session_id, kwargs)
            engine = self._share(session)
            if session.contact is not None:
                session = session.behind(engine.veil())
            self._session = session
            says = (kwargs.get(f"{kind}_callback") for kind in ("warning", "status"))
            self._listener = engine.notices.listen(*says)
            if session.imports_for is not None:
                engine.follow_files(session.imports_for)
            if session.may_write:
                engine.see_agent(session.speaker.theme, session.kind)

    def _now(self) -> Session | None:
        """Return the session; under its true ids as soon as they can be known."""
        session = self._session
        if session is None or not session.is_sealed:
            return session
        with self._mutex:
            session = self._session
            if session is not None and (known := session.unsealed()) != session:
                self._share(known).turns.rename(session.speaker, known.speaker)
                self._session = session = known
            return session

    def _writing(self) -> Session | None:
        session = self._now()
        return session if session is not None and session.may_write else None

    def _share(self, session: Session) -> Engine:
        """Return the engine; again after a fork, and after `shutdown`."""
        engine = self._engine
        if engine is not None and engine.pid == os.getpid():
            return engine
        with self._mutex:
            if self._engine is None or self._engine.pid != os.getpid():
                self._let_go()
                engine = engines.acquire(session.home, session.settings)
                # The API server forgets providers without shutting them down.
                self._finalizer = weakref.finalize(self, engines.forget, engine)
                self._finalizer.atexit = False
                self._engine = engine
            return self._engine

    def _let_go(self) -> Engine | None:
        """Return the engine of this process that we held, and hold none."""
        with self._mutex:
            engine, self._engine = self._engine, None
            if self._finalizer is not None:
                self._finalizer.detach()
                self._finalizer = None
        return engine if engine is not None and engine.pid == os.getpid() else None


def _note_private(
    engine: Engine, session: Session, messages: Sequence[object] | None
) -> None:
    """Remember what a contact's agent asked to write: it may come by the file."""
    if session.contact is not None:
        for text in asked_for(messages or ()):
            engine.private_notes.add(text)
