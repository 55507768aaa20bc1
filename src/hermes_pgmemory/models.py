"""The values that cross rooms. Nothing here imports anything of ours.

Times are timezone-aware and are those of the event, never of its replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, NewType

Theme = NewType("Theme", str)
"""A normalised agent identity. Only `identity` may create one."""

Subject = NewType("Subject", str)
"""A keyed hash of one contact, 32 hex digits; whose private rows these are."""

JsonScalar = str | int | float | bool | None
Metadata = Mapping[str, JsonScalar]
"""Flat provenance of a row: platform, session, origin. Never an identity."""

Vector = Sequence[float]
"""One embedding: finite floats, `EmbeddingModel.dimension` of them."""

CONTEXT_CHARS: Final = 400
"""How much of the turn before is embedded with a turn: its end, where it leads on."""


def in_context(content: str, context: str) -> str:
    """Return what is embedded for a turn: "Yes, on Friday." alone means nothing.

    Args:
        content: What was said.
        context: The last `CONTEXT_CHARS` of what was said before; "" is nothing.
    """
    return f"{context}\n{content}" if context else content


class Target(StrEnum):
    """Which built-in file an entry mirrors."""

    MEMORY = "memory"
    USER = "user"


class Role(StrEnum):
    """Who spoke a turn."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


class AgentKind(StrEnum):
    """What sort of identity a theme stands for."""

    THEME = "theme"
    WORKER = "worker"
    DM = "dm"
    GROUP = "group"
    BENCH = "bench"
    DEFAULT = "default"


@dataclass(slots=True, kw_only=True)
class AddEntry:
    """Mirror a new entry of MEMORY.md or USER.md; known content is left alone.

    Like `AddTurn` not frozen, which would cost the hook that makes it a microsecond.
    """

    theme: Theme
    subject: Subject | None = None
    target: Target
    content: str
    at: datetime
    source: str | None = None
    """Which file the entry came from, as `file_ids` names it."""
    metadata: Metadata = field(default_factory=dict[str, JsonScalar])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceEntry:
    """Replace one whole entry by *content*, as the host's own store did."""

    theme: Theme
    subject: Subject | None = None
    target: Target
    old_text: str
    """A case-sensitive substring of the entry; `%`, `_` and `\\` are literal."""
    previous: str | None = None
    """The whole replaced entry, where the host tells it."""
    content: str
    at: datetime
    source: str | None = None
    metadata: Metadata = field(default_factory=dict[str, JsonScalar])


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveEntry:
    """Remove one entry; with nothing to match it removes nothing."""

    theme: Theme
    subject: Subject | None = None
    target: Target
    old_text: str
    previous: str | None = None
    at: datetime
    source: str | None = None
    metadata: Metadata = field(default_factory=dict[str, JsonScalar])


@dataclass(slots=True, kw_only=True)
class AddTurn:
    """Keep one spoken turn of a session."""

    theme: Theme
    subject: Subject | None = None
    session_id: str
    parent_session_id: str | None = None
    role: Role
    content: str
    ordinal: int
    """The how-many-eth time this role says this content in the session, from 1."""
    at: datetime
    context: str = ""
    """What was said just before; embedded together with the turn, never stored."""
    brought_from: Mapping[str, float] = field(default_factory=dict[str, float])
    """Sessions that may hold this very turn already, so that it is not this session's;
    each until when, in Unix time. See `lineage`."""
    embed: bool = True
    metadata: Metadata = field(default_factory=dict[str, JsonScalar])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDelegation:
    """Note who delegated what to whom, and when; provenance, not a fact."""

    theme: Theme
    subject: Subject | None = None
    parent_session_id: str
    child_session_id: str
    task: str
    at: datetime
    metadata: Metadata = field(default_factory=dict[str, JsonScalar])


@dataclass(frozen=True, slots=True, kw_only=True)
class SeeAgent:
    """Note in the registry that an identity was seen."""

    theme: Theme
    kind: AgentKind
    at: datetime


Write = AddEntry | ReplaceEntry | RemoveEntry | AddTurn | RecordDelegation | SeeAgent
"""Everything that may be journaled; the type checker sees that all are handled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A journaled write with its place in the journal."""

    epoch: str
    """UUID of the process run that accepted it."""
    position: int
    """Place within the epoch, ascending from 1; gaps are allowed."""
    write: Write


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """An entry's row, seen from one file that holds the entry, or once held it."""

    theme: Theme
    id: int
    content: str
    known: bool
    """Whether the file itself was ever seen to hold it, not just an ancestor of it."""
    missing: bool
    """Whether the file was later seen without it."""
    retired: bool
    shared: bool = False
    """Whether another file holds it, so that this one alone does not retire it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVerdict:
    """What a file says about its rows."""

    present: Sequence[FileRow] = ()
    """The file holds these, and they do not say so: they come back."""
    gone: Sequence[FileRow] = ()
    """The file holds these no more: retired, unless another file has them."""
    doubtful: Sequence[FileRow] = ()
    """The same, but kept in use until somebody confirms it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingModel:
    """What vectors come from; two models' vectors are never compared."""

    name: str
    dimension: int
    query_prefix: str = ""
    document_prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose rows a search may see."""

    theme: Theme | None
    """One theme, or None for every theme."""
    subject: Subject | None
    """Rows of this subject; None sees only rows that belong to no subject."""
    include_shared: bool = False
    """With a subject: also rows that belong to no subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """What narrows a search besides its scope; None leaves that open."""

    since: datetime | None = None
    """From here on: an entry by its last change, a turn by when it was said."""
    until: datetime | None = None
    """Before this time."""
    platform: str | None = None
    """Came by this platform of the host, in any case."""
    role: Role | None = None
    """Who spoke; of entries nobody did, and it is ignored."""


ANY: Final = Facets()
"""Narrows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One memory entry as it is kept."""

    id: int
    theme: Theme
    target: Target
    content: str
    created_at: datetime
    updated_at: datetime
    platform: str | None = None
    """Where it was noted, if that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What a hit's score was made of, each in [0, 1], in the order of the making."""

    nearness: float | None
    """Its similarity on the model's scale; None where no vector was compared."""
    words: float
    """The share of the question's words it holds, rare ones counting more."""
    alone: float
    """The score of both together."""
    in_context: float
    """The same, after the turns around it had their say; an entry has none."""
    kept: float = 1.0
    """Which part of that its age has left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryHit:
    """One recalled memory entry."""

    id: int
    theme: Theme
    target: Target
    content: str
    similarity: float | None
    """Cosine in [-1, 1]; None where no vector was compared."""
    relevance: float
    """How surely it bears on the question, on a scale that means the same for every
    model, question and number of rows: 0 like any unrelated text, 1 an answer."""
    score: float
    """What the hits are ranked by, in [0, 1]: the mean of nearness, which is similarity
    on the model's scale, and of the share of the question's words held."""
    created_at: datetime
    updated_at: datetime
    platform: str | None = None
    """Where it was noted, if that is known."""
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """The beginning of what was said just before or after a turn."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHit:
    """One recalled conversation turn."""

    id: int
    theme: Theme
    session_id: str
    role: Role
    content: str
    similarity: float | None
    relevance: float
    score: float
    """As an entry's, averaged with its neighbours' and its session's."""
    at: datetime
    platform: str | None = None
    before: Neighbour | None = None
    """The turn before it, of the same session and subject."""
    after: Neighbour | None = None
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class ThemeCount:
    """How much one theme holds."""

    theme: Theme
    kind: AgentKind | None
    entries: int
    retired: int
    """Entries that are in no memory file any more, and not among `entries`."""
    turns: int
    unembedded_entries: int
    unembedded_turns: int
    last_seen: datetime | None
