"""Who an agent is, worked out once from what the host says at `initialize`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory import memory_files
from hermes_pgmemory.capture import Room
from hermes_pgmemory.config import Settings, parse
from hermes_pgmemory.contacts import SEALED, Contact
from hermes_pgmemory.identity import Identity, Policy, Rule, resolve
from hermes_pgmemory.key_text import fold, tidy
from hermes_pgmemory.models import AgentKind, Subject, Target, Theme
from hermes_pgmemory.paths import HomePaths, default_home
from hermes_pgmemory.session_keys import chat_of
from hermes_pgmemory.settings_file import load_section
from hermes_pgmemory.subjects import Veil, unsealed, veil_of
from hermes_pgmemory.text import clean
from hermes_pgmemory.tools import MAX_PLATFORM_CHARS, Caller
from hermes_pgmemory.turn_ledger import Speaker, TurnLedger

MAX_ID_CHARS: Final = 512

log = logging.getLogger("hermes_pgmemory")

_told: set[str] = set()
"""What was already warned about in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One agent in one session; a new value when the session changes."""

    home: Path
    settings: Settings
    kind: AgentKind
    may_write: bool
    contact: Contact | None
    """Whose private rows this agent writes; None where rows belong to the theme."""
    speaker: Speaker
    caller: Caller
    imports_for: Theme | None
    """The theme that MEMORY.md and USER.md of this home belong to."""
    veil: Veil | None = None
    """Hides ids, in a private chat; nothing identifying passes it."""

    @classmethod
    def begin(cls, session_id: str, kwargs: Mapping[str, Any]) -> Session:
        """Work out a session from the arguments of the host's `initialize`.

        Raises:
            ConfigError: config.yaml cannot be read at all.
        """
        home = Path(kwargs.get("hermes_home") or default_home())
        paths = HomePaths(home)
        parsed = parse(load_section(paths.config))
        for key, complaint in parsed.problems.items():
            _warn_once(f"{key}: {complaint}")
        sources = memory_files.sources(paths)
        return cls._of(home, parsed.settings, session_id, kwargs, sources)

    @classmethod
    def of_program(
        cls, theme: str, *, platform: str, home: Path, settings: Settings
    ) -> Session:
        """Work out who a program is that names its *theme* itself.

        It is judged as a client of the host's API server that sends *theme* as its
        session key, so that a contact named either way is one subject. Its entries
        are in no memory file, and `write_contexts` speaks of agents, not of it.
        """
        said = {"gateway_session_key": theme, "platform": "api_server"}
        session = cls._of(home, settings, "", said, {})
        return replace(
            session,
            may_write=True,
            imports_for=None,
            speaker=replace(session.speaker, platform=_platform(platform)),
        )

    @classmethod
    def _of(
        cls,
        home: Path,
        settings: Settings,
        session_id: str,
        kwargs: Mapping[str, Any],
        sources: Mapping[Target, str],
    ) -> Session:
        policy = Policy(
            aliases=settings.identity_aliases,
            allowed_themes=settings.allowed_themes,
            bench_mode=settings.bench_mode,
        )
        who = _resolve(kwargs, policy)
        if who.rule is Rule.NOT_ALLOWED:
            _warn_once(
                f"{who.safe_label} is not among plugins.pgvector.allowed_themes: "
                f"its memories go to {who.theme!r}"
            )
        # Those of a private chat wait for the veil, as its contact does.
        named = _id if who.contact else partial(_named, home=home, veil=None)
        speaker = Speaker(
            theme=who.theme,
            session_id=named(session_id),
            parent_session_id=named(kwargs.get("parent_session_id")) or None,
            platform=_platform(kwargs.get("platform")),
            sources=sources,
        )
        context = fold(kwargs.get("agent_context")) or "primary"
        may_write = context in map(fold, settings.write_contexts)
        return cls(
            home=home,
            settings=settings,
            kind=who.kind,
            may_write=may_write,
            contact=who.contact,
            speaker=speaker,
            caller=_caller(who, speaker, settings, policy),
            imports_for=_profile_theme(kwargs, policy)
            if settings.bulk_sync_on_init and may_write
            else None,
        )

    def behind(self, veil: Veil) -> Session:
        """Return this session with all that identifies its contact hidden."""
        if self.contact is None:
            return self
        return self._renamed(veil.session_id, veil.subject(self.contact), veil)

    @property
    def is_sealed(self) -> bool:
        """Whether anything waits for the database's key; see `subjects`."""
        said = self.speaker
        # Every hook asks, and a generator would cost it a microsecond.
        return (
            said.session_id.startswith(SEALED)
            or (said.subject or "").startswith(SEALED)
            or (said.parent_session_id or "").startswith(SEALED)
        )

    def unsealed(self, veil: Veil | None = None) -> Session:
        """Return this session as it is once the database's key is known.

        Until then, itself. The key is *veil*'s, or the one that this home knows.
        """
        paths = HomePaths(self.home)
        veil = veil or veil_of(paths)
        if not veil.is_final:
            return self
        opened = partial(unsealed, paths, key=veil.key)
        if self.contact is None:
            return self._renamed(opened, None, None)
        return self._renamed(opened, veil.subject(self.contact), veil)

    def _renamed(
        self, rename: Callable[[str], str], subject: Subject | None, veil: Veil | None
    ) -> Session:
        session_id = rename(self.speaker.session_id)
        speaker = replace(
            self.speaker,
            subject=subject,
            session_id=session_id,
            parent_session_id=rename(self.speaker.parent_session_id or "") or None,
        )
        caller = replace(self.caller, subject=subject, session_id=session_id)
        return replace(self, veil=veil, speaker=speaker, caller=caller)

    def session_named(self, session_id: object) -> str:
        """Return *session_id* as rows carry it; "" if it is no usable text."""
        return _named(session_id, home=self.home, veil=self.veil)

    def provenance(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the host tells of a write, as rows may carry it."""
        # The API server calls a task after its session.
        if "task_id" not in metadata:
            return metadata
        return {**metadata, "task_id": self.session_named(metadata["task_id"])}

    def switched(self, session_id: str, parent_session_id: str) -> Session:
        """Return this agent in another session."""
        new = self.session_named(session_id) or self.speaker.session_id
        parent = self.session_named(parent_session_id) or None
        speaker = replace(
            self.speaker,
            session_id=new,
            # An in-place compaction names a session as its own parent.
            parent_session_id=parent if parent != new else None,
        )
        return replace(
            self, speaker=speaker, caller=replace(self.caller, session_id=new)
        )

    def room(self, ledger: TurnLedger, session_id: str = "") -> Room:
        """Return what the turns of this session, or of *session_id*, share."""
        return Room(
            session_id=self.session_named(session_id) or self.speaker.session_id,
            speaker=self.speaker,
            settings=self.settings,
            ledger=ledger,
        )


_SAID: Final = (
    "gateway_session_key",
    "agent_identity",
    "agent_workspace",
    "platform",
    "chat_type",
    "user_id",
    "user_id_alt",
    "chat_id",
)
"""What the host may say about who an agent is."""


@lru_cache(maxsize=512)
def _names_a_chat(session_id: str) -> bool:
    return chat_of(tidy(session_id)) is not None


def _resolve(said: Mapping[str, Any], policy: Policy) -> Identity:
    return resolve(**{name: said.get(name) for name in _SAID}, policy=policy)


def _profile_theme(kwargs: Mapping[str, Any], policy: Policy) -> Theme:
    """Return the theme of the home itself, whoever speaks through it."""
    of_home = ("agent_identity", "agent_workspace")
    return _resolve({name: kwargs.get(name) for name in of_home}, policy).theme


def _caller(
    who: Identity, speaker: Speaker, settings: Settings, policy: Policy
) -> Caller:
    return Caller(
        theme=who.theme,
        subject=None,
        governed=who.governed,
        session_id=speaker.session_id,
        scope_default=settings.scope_default,
        cross_theme_recall=settings.cross_theme_recall,
        theme_named=lambda name: _resolve({"agent_identity": name}, policy).theme,
    )


def _platform(name: object) -> str:
    return clean(name, max_chars=MAX_PLATFORM_CHARS)


def _id(value: object) -> str:
    return clean(value, max_chars=MAX_ID_CHARS)


def _named(value: object, *, home: Path, veil: Veil | None) -> str:
    """Return a session id as rows carry it: one that names a chat is hidden."""
    name = _id(value)
    if veil is not None:
        return veil.session_id(name)
    if name and _names_a_chat(name):
        return veil_of(HomePaths(home)).session_id(name)
    return name


def _warn_once(line: str) -> None:
    if line not in _told:
        _told.add(line)
        log.warning("%s", line)
