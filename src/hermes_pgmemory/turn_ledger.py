"""What each session has said already: turns are kept once, repetitions twice."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hermes_pgmemory.models import CONTEXT_CHARS, Role, Subject, Target, Theme

TurnKey = tuple[Role, bytes]
"""Who spoke, and a hash of what was said."""


class Turn(NamedTuple):
    """What was said, and what it is known by."""

    key: TurnKey
    text: str

    @classmethod
    def of(cls, role: Role, text: str) -> Turn:
        """Return *text* as *role* says it."""
        return cls(
            (role, hashlib.blake2b(text.encode(), digest_size=16).digest()), text
        )


class Place(NamedTuple):
    """Where in its session a turn stands."""

    ordinal: int
    """The how-many-eth time the session says these words."""
    context: str
    """What was said just before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """On whose behalf an agent writes, and from where."""

    theme: Theme
    subject: Subject | None = None
    session_id: str = ""
    parent_session_id: str | None = None
    platform: str = ""
    sources: Mapping[Target, str] = field(default_factory=dict[Target, str])
    """Which file each target mirrors, as `file_ids` names it."""


_Place = tuple[Theme, Subject | None, str]


@dataclass(slots=True)
class _Session:
    spoken: Counter[TurnKey] = field(default_factory=Counter[TurnKey])
    """How often the host told of these words as a turn of their own."""
    kept: Counter[TurnKey] = field(default_factory=Counter[TurnKey])
    """The highest ordinal accepted, from either telling."""
    last: str = ""
    """What was said last, cut to `CONTEXT_CHARS`."""


class Offer:
    """What `TurnLedger.offered` returns; a generator would cost a hook more."""

    __slots__ = ("_ledger", "_session_id", "_speaker")

    def __init__(self, ledger: TurnLedger, speaker: Speaker, session_id: str) -> None:
        """Stand for one offer of a session's turns."""
        self._ledger = ledger
        self._speaker = speaker
        self._session_id = session_id

    def __enter__(self) -> None:
        """Do nothing: only the end matters."""

    def __exit__(self, kind: object, _error: object, _traceback: object) -> None:
        """Take the turns back if they were not accepted."""
        if kind is not None:
            self._ledger.take_back(self._speaker, self._session_id)


class TurnLedger:
    """Counts what each session said, so that nothing is kept twice or dropped.

    The host tells us of a turn when it happens (`sync_turn`) and again with the
    whole transcript (`on_session_end`), in either order, after compactions that cut
    the transcript, and from a new provider per request. A turn's ordinal, the
    how-many-eth time its session says these words, is the same in every telling; the
    database keeps one row per ordinal. Bounded: the sessions longest unheard of are
    forgotten, which costs at most the second of two identical sentences.
    """

    def __init__(self, *, sessions: int = 512) -> None:
        """Remember up to *sessions* sessions."""
        self._limit = sessions
        self._mutex = threading.Lock()
        self._sessions: OrderedDict[_Place, _Session] = OrderedDict()

    def spoken(
        self, speaker: Speaker, session_id: str, turn: Turn, *, heard: int
    ) -> Place | None:
        """Return the place of a turn spoken just now; None if it is kept already.

        *heard* is how often the transcript at hand holds it, this time included; 0
        when there is no transcript.
        """
        with self._mutex:
            session = self._session(speaker, session_id)
            ordinal = max(session.spoken.get(turn.key, 0) + 1, heard)
            session.spoken[turn.key] = ordinal
            return self._keep(session, turn, ordinal)

    def retold(
        self, speaker: Speaker, session_id: str, turn: Turn, *, ordinal: int
    ) -> Place | None:
        """Return the place of a turn of a transcript if it is not kept yet."""
        with self._mutex:
            return self._keep(self._session(speaker, session_id), turn, ordinal)

    def offered(self, speaker: Speaker, session_id: str) -> Offer:
        """Count as kept what the body counts, unless it fails.

        Then all turns of the session are offered again when the transcript is told.
        Those the journal has taken get the ordinals they had, and stay one row.
        """
        return Offer(self, speaker, session_id)

    def take_back(self, speaker: Speaker, session_id: str) -> None:
        """Forget what was kept of a session: it is offered again."""
        with self._mutex:
            self._session(speaker, session_id).kept.clear()

    def settle(self, speaker: Speaker, session_id: str) -> None:
        """Count what was retold as spoken: its own telling will not come any more.

        After a compaction the transcript no longer holds it, so that saying it again
        would look like the first time.
        """
        with self._mutex:
            session = self._session(speaker, session_id)
            session.spoken |= session.kept

    def carry(self, speaker: Speaker, session_id: str, new_session_id: str) -> None:
        """Let a new session know what its transcript brings along from another."""
        with self._mutex:
            old = self._session(speaker, session_id)
            new = self._session(speaker, new_session_id)
            new.spoken |= old.spoken | old.kept
            new.kept |= old.kept

    def rename(self, old: Speaker, new: Speaker) -> None:
        """Know a speaker's session by the ids that it goes by from now on."""
        with self._mutex:
            known = self._sessions.pop(_place(old, old.session_id), None)
            if known is not None:
                self._sessions[_place(new, new.session_id)] = known

    def _keep(self, session: _Session, turn: Turn, ordinal: int) -> Place | None:
        before, session.last = session.last, turn.text[-CONTEXT_CHARS:]
        if ordinal <= session.kept.get(turn.key, 0):
            return None
        session.kept[turn.key] = ordinal
        return Place(ordinal, before)

    def _session(self, speaker: Speaker, session_id: str) -> _Session:
        place = _place(speaker, session_id)
        session = self._sessions.get(place)
        if session is None:
            session = self._sessions[place] = _Session()
        self._sessions.move_to_end(place)
        while len(self._sessions) > self._limit:
            self._sessions.popitem(last=False)
        return session


def _place(speaker: Speaker, session_id: str) -> _Place:
    return speaker.theme, speaker.subject, session_id
