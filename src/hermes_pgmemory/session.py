"""Who an agent is, worked out once from what the host says at `initialize`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory import memory_files
from hermes_pgmemory.capture import Room
from hermes_pgmemory.config import Settings, parse
from hermes_pgmemory.contacts import Contact
from hermes_pgmemory.identity import Identity, Policy, Rule, resolve
from hermes_pgmemory.models import AgentKind, Theme
from hermes_pgmemory.paths import HomePaths, default_home
from hermes_pgmemory.session_keys import fold
from hermes_pgmemory.settings_file import load_section
from hermes_pgmemory.text import clean
from hermes_pgmemory.tools import Caller
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
        settings = parsed.settings
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
        speaker = Speaker(
            theme=who.theme,
            session_id=clean(session_id, max_chars=MAX_ID_CHARS),
            parent_session_id=_id(kwargs.get("parent_session_id")),
            platform=clean(kwargs.get("platform"), max_chars=40),
            sources=memory_files.sources(paths),
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

    def with_subject(self, key: bytes) -> Session:
        """Return this session with its contact hashed by the database's *key*."""
        if self.contact is None:
            return self
        subject = self.contact.subject(key)
        return replace(
            self,
            speaker=replace(self.speaker, subject=subject),
            caller=replace(self.caller, subject=subject),
        )

    def switched(self, session_id: str, parent_session_id: str) -> Session:
        """Return this agent in another session."""
        new = clean(session_id, max_chars=MAX_ID_CHARS) or self.speaker.session_id
        parent = _id(parent_session_id)
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
            session_id=clean(session_id, max_chars=MAX_ID_CHARS)
            or self.speaker.session_id,
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


def _id(value: object) -> str | None:
    return clean(value, max_chars=MAX_ID_CHARS) or None


def _warn_once(line: str) -> None:
    if line not in _told:
        _told.add(line)
        log.warning("%s", line)
