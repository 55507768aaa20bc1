"""The memory for programs that are not hermes: the same rows, rules and promises.

What a program writes goes through the journal that agents' hooks use, and is kept once
the call returns. Whose rows it reads and writes is decided by the rules for agents.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal, Self

from hermes_pgmemory import capture, engines, tool_calls, tools
from hermes_pgmemory.engine import Engine
from hermes_pgmemory.errors import BadRequest, Unavailable
from hermes_pgmemory.hygiene import MAX_ENTRY_CHARS, storable
from hermes_pgmemory.memory._asking import Found, Moment, facets, told
from hermes_pgmemory.memory._opening import folder_of, settings_of, with_subject
from hermes_pgmemory.metrics import RECALL_SECONDS
from hermes_pgmemory.models import Entry, EntryHit, Target, ThemeCount, TurnHit, Write
from hermes_pgmemory.recall import Deadline
from hermes_pgmemory.session import Session

__all__ = ["Found", "Memory"]

CLOSING_S: Final = 10.0
ENTRIES_MAX: Final = 500
"""Entries that `Memory.entries` returns at most."""


class Memory:
    """One theme's memory. Thread-safe; close it, or use it as a context manager.

    Cheap to make: all of a process that have the same home and settings share one
    journal, one writer's thread and one pool of connections.
    """

    def __init__(
        self,
        *,
        theme: str,
        dsn: str | None = None,
        home: str | os.PathLike[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        platform: str = "library",
    ) -> None:
        """Open the memory of *theme*; connects in the background.

        Args:
            theme: Whose memory, judged like the session key of an API client: a name
                that looks like a chat's, or holds a number or an address, leads to
                that contact's own rows in a bucket and to no other theme.
            dsn: PostgreSQL connection string. None takes that of *home*.
            home: Folder of the journal, and of the settings in its `config.yaml`. One
                folder is for one database: what a killed program left there goes to
                the database of the next. A HERMES_HOME shares its agents' memory;
                that is the default without *dsn*. With one, it is a folder for that
                database below `$XDG_STATE_HOME` or `~/.local/state`.
            settings: Settings below `plugins.pgvector`, by name, that outrank those
                of *home*: `{"embed_url": "http://gpu1:11434"}`.
            platform: What rows tell of where they come from, as results and the
                filter `platform` have it; 40 characters at most.

        Raises:
            ConfigError: A setting is wrong; names it.
            JournalUnavailable: The folder cannot be used.
            DatabaseUnavailable: *theme* is a private chat's and this home has never
                met its database, whose key hides the contact.
        """
        if not isinstance(theme, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadRequest("theme must be a name")
        folder = folder_of(dsn, home)
        chosen = settings_of(folder, dsn, settings or {})
        session = Session.of_program(
            theme, platform=platform, home=folder, settings=chosen
        )
        self._mutex = threading.Lock()
        self._engine: Engine | None = engines.acquire(folder, chosen)
        self._finalizer = weakref.finalize(self, engines.forget, self._engine)
        self._finalizer.atexit = False
        with ExitStack() as failed:
            failed.callback(self.close, timeout_s=0)
            self._session = with_subject(session, self._engine)
            failed.pop_all()

    @property
    def theme(self) -> str:
        """The theme that the rules led to; a bucket's for a private chat."""
        return self._session.speaker.theme

    # -- writing -------------------------------------------------------------

    def add(self, text: str, *, target: Literal["memory", "user"] = "memory") -> None:
        """Keep *text* as a memory entry; what the theme knows already is left alone.

        Secrets are cut out. Once this returns, the entry survives the end of this
        program, of the database and of the model; a power cut may cost what the last
        second accepted. It can be recalled a moment later, see `flush`.

        Args:
            text: The entry.
            target: `user` for what is known about the user, `memory` for the rest.

        Raises:
            BadRequest: *text* is blank, or *target* is another word.
            JournalUnavailable: Nothing was kept: the disk, or the quota, is full.
        """
        self._write("add", target, text, {})

    def replace(
        self,
        old: str,
        new: str,
        *,
        target: Literal["memory", "user"] = "memory",
        whole: bool = False,
    ) -> None:
        """Replace one whole entry by *new*; where none matches, *new* is added.

        Args:
            old: A part of the entry, case-sensitive; of several, the newest goes.
            new: The entry that takes its place.
            target: As for `add`.
            whole: Whether *old* is all of the entry, so that no other can match.

        Raises:
            BadRequest: *old* or *new* is blank, or *target* is another word.
            JournalUnavailable: As for `add`.
        """
        self._write("replace", target, new, _matching(old, whole=whole))

    def remove(
        self,
        old: str,
        *,
        target: Literal["memory", "user"] = "memory",
        whole: bool = False,
    ) -> None:
        """Remove one entry; where none matches, nothing happens.

        What a memory file of an agent's home still holds comes back with the file.

        Args:
            old: As for `replace`.
            target: As for `add`.
            whole: As for `replace`.

        Raises:
            BadRequest: *old* is blank, or *target* is another word.
            JournalUnavailable: As for `add`.
        """
        self._write("remove", target, "", _matching(old, whole=whole))

    def turn(self, user: str, assistant: str, *, session: str = "") -> int:
        """Keep one exchange of a conversation.

        Args:
            user: What the user said.
            assistant: What was answered; either may be blank.
            session: Names the conversation; said twice there, it is kept twice.

        Returns:
            How many of the two are kept: acknowledgements and what is shorter than
            the setting `turn_min_chars` are not, and nothing with `sync_turns` off.

        Raises:
            JournalUnavailable: As for `add`.
        """
        engine, me = self._open(), self._session
        if not me.settings.sync_turns:
            return 0
        room = me.room(engine.turns, session)
        with engine.turns.offered(room.speaker, room.session_id):
            now = datetime.now(UTC)
            writes = capture.turn(user, assistant, None, room=room, at=now)
            self._submit(engine, writes)
        return len(writes)

    def flush(self, *, timeout_s: float = 30.0) -> None:
        """Wait until everything accepted so far can be recalled.

        Raises:
            Unavailable: It is kept in the journal, but was not stored in *timeout_s*
                seconds, or something is in the way; says what.
        """
        engine = self._open()
        if not engine.writer.flush(timeout_s=timeout_s):
            outage = engine.writer.outage
            why = outage.reason if outage else f"not done within {timeout_s:g} s"
            raise Unavailable(
                f"{engine.journal_depth} writes are kept in the journal only: {why}"
            )

    # -- reading -------------------------------------------------------------

    def recall(
        self,
        query: str,
        *,
        scope: str | None = None,
        target: Literal["memory", "user", "both"] = "both",
        since: Moment | None = None,
        until: Moment | None = None,
        platform: str | None = None,
        limit: int = tools.LIMIT_DEFAULT,
    ) -> Found[EntryHit]:
        """Search memory entries by meaning and by words.

        Args:
            query: A question, or key words.
            scope: `current` for this theme, `all`, or another theme's name; None takes
                the setting `scope_default`.
            target: As for `add`, or `both`.
            since: Only what was last changed then or later.
            until: Only what was last changed then or earlier, to the end of that day.
            platform: Only what was noted on this platform.
            limit: 1 to 20; a number out of range is taken to the nearest bound.

        Returns:
            The best entries, best first. Texts are as they were written: whoever
            shows them to a model should say that they are data.

        Raises:
            BadRequest: Names the argument that is wrong, or the scope that a private
                chat may not have.
            Unavailable: Nothing can be searched now.
            SchemaError: The database wants an administrator.
        """
        args = {"query": query, "scope": scope, "target": target, "limit": limit}
        args |= facets(since, until, platform)
        engine, caller = self._open(), self._session.caller
        with RECALL_SECONDS.labels(path="tool").time():
            return told(
                tool_calls.entries(engine.recall, args, caller, waiting=engine.waiting)
            )

    def recall_turns(
        self,
        query: str,
        *,
        scope: str | None = None,
        session: str | None = None,
        role: Literal["user", "assistant"] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        platform: str | None = None,
        limit: int = tools.LIMIT_DEFAULT,
    ) -> Found[TurnHit]:
        """Search what was said in conversations, by meaning and by words.

        Args:
            query: As for `recall`.
            scope: As for `recall`.
            session: Only this conversation of the theme, whatever the scope.
            role: Only what this one said.
            since: Only what was said then or later.
            until: Only what was said then or earlier, to the end of that day.
            platform: As for `recall`.
            limit: As for `recall`.

        Returns:
            The best turns, best first, each with the turns around it.

        Raises:
            BadRequest: As for `recall`.
            Unavailable: As for `recall`.
            SchemaError: As for `recall`.
        """
        args = {"query": query, "scope": scope, "role": role, "limit": limit}
        args |= facets(since, until, platform)
        engine, caller = self._open(), self._session.caller
        if session is not None:
            caller = replace(caller, session_id=self._session.session_named(session))
            args["scope"] = "session"
        with RECALL_SECONDS.labels(path="tool").time():
            return told(
                tool_calls.turns(engine.recall, args, caller, waiting=engine.waiting)
            )

    def entries(
        self,
        *,
        scope: str = "current",
        holding: str = "",
        target: Literal["memory", "user", "both"] = "both",
        limit: int = 50,
    ) -> list[Entry]:
        """Return entries without a question, newest first.

        Args:
            scope: As for `recall`.
            holding: Only those that hold this text as it is, case-sensitive.
            target: As for `recall`.
            limit: 1 to 500; a number out of range is taken to the nearest bound.

        Raises:
            BadRequest: *target* is another word, or *scope* one that a private chat may
                not have.
            Unavailable: The database does not answer now.
            SchemaError: The database wants an administrator.
        """
        return self._open().recall.newest(
            scope=tools.scope_named(scope, self._session.caller),
            target=None if target == "both" else _target(target),
            holding=storable(holding, max_chars=MAX_ENTRY_CHARS),
            limit=min(max(limit, 1), ENTRIES_MAX),
            deadline=Deadline(tool_calls.BUDGET_S),
        )

    def themes(self) -> list[ThemeCount]:
        """Count what each theme holds, by name; buckets of private chats are left out.

        Reads every row's theme: seconds, where there are millions.

        Raises:
            BadRequest: This is a private chat's memory, which sees no other theme.
            Unavailable: The database does not answer now.
            SchemaError: The database wants an administrator.
        """
        tools.check_crossing(self._session.caller)
        deadline = Deadline(tool_calls.BUDGET_S)
        return self._open().recall.themes(deadline=deadline)

    # -- life ----------------------------------------------------------------

    def close(self, *, timeout_s: float = CLOSING_S) -> None:
        """Store what is accepted, for *timeout_s* seconds at most, and let go.

        What is left stays in the journal, for the next program of the same home.
        Closing twice does nothing.
        """
        with self._mutex:
            engine, self._engine = self._engine, None
        if engine is None or engine.pid != os.getpid():
            return
        self._finalizer.detach()
        if timeout_s > 0:
            engine.writer.flush(timeout_s=timeout_s)
        engines.release(engine)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    # -- below ---------------------------------------------------------------

    def _open(self) -> Engine:
        engine = self._engine
        if engine is None:
            raise BadRequest("this memory is closed: make a new one")
        if engine.pid != os.getpid():
            raise BadRequest("this memory is another process's: make a new one")
        return engine

    def _write(
        self, action: str, target: str, text: str, metadata: Mapping[str, str]
    ) -> None:
        """Accept one event, as the host's memory tool would tell of it."""
        engine = self._open()
        write = capture.entry(
            action,
            _target(target),
            text,
            metadata,
            speaker=self._session.speaker,
            at=datetime.now(UTC),
        )
        if write is None:
            raise BadRequest("the text must be a non-empty string")
        self._submit(engine, [write])

    def _submit(self, engine: Engine, writes: list[Write]) -> None:
        if writes:
            engine.see_agent(self._session.speaker.theme, self._session.kind)
            engine.submit(writes)


def _target(name: str) -> Target:
    try:
        return Target(name)
    except ValueError:
        raise BadRequest("target must be one of 'memory', 'user'") from None


def _matching(old: str, *, whole: bool) -> Mapping[str, str]:
    if not isinstance(old, str) or not old.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadRequest("the old text must be a non-empty string")
    return {"previous_content" if whole else "old_text": old}
