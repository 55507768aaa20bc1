"""From a host event to the writes it means: gate, noise, order, provenance.

Pure but for the ledger, which remembers what a session has already said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, cast

from hermes_pgmemory.config import Settings
from hermes_pgmemory.hygiene import MAX_ENTRY_CHARS, MAX_TURN_CHARS, storable
from hermes_pgmemory.models import (
    AddEntry,
    AddTurn,
    JsonScalar,
    Metadata,
    RecordDelegation,
    RemoveEntry,
    ReplaceEntry,
    Role,
    Target,
    Write,
)
from hermes_pgmemory.text import clean, flatten, is_noise
from hermes_pgmemory.turn_ledger import Place, Speaker, Turn, TurnKey, TurnLedger

MAX_TASK_CHARS: Final = 8_000
SUBSTANTIVE_CHARS: Final = 120
"""From this length on, `substantive_only` embeds what the assistant said."""

_PROVENANCE: Final = (
    "write_origin",
    "execution_context",
    "platform",
    "tool_name",
    "tool_call_id",
    "task_id",
)
_FAR_FUTURE: Final = 253_402_300_799.0
"""The last second of the year 9999; later ones are not dates."""
_MOMENT: Final = timedelta(microseconds=1)
"""Between two turns told at once: one time never stands for two of them."""
_NOWHERE: Final[Mapping[str, float]] = {}
_SPOKEN: Final = {"user": Role.USER, "assistant": Role.ASSISTANT}


@dataclass(slots=True, kw_only=True)
class Room:
    """What every turn of one session shares. Not frozen: that costs a hook more."""

    session_id: str
    speaker: Speaker
    settings: Settings
    ledger: TurnLedger

    def add(
        self,
        role: Role,
        text: str,
        place: Place,
        at: datetime,
        note: Metadata | None = None,
        brought_from: Mapping[str, float] = _NOWHERE,
    ) -> AddTurn:
        """Return the write that keeps one turn."""
        return AddTurn(
            theme=self.speaker.theme,
            subject=self.speaker.subject,
            session_id=self.session_id or "default",
            parent_session_id=self.speaker.parent_session_id,
            role=role,
            content=text,
            ordinal=place.ordinal,
            at=at,
            context=place.context,
            brought_from=brought_from,
            embed=_embeds(role, text, self.settings),
            metadata=_provenance(note or {}, self.speaker),
        )

    def spoken(
        self,
        role: Role,
        text: str,
        at: datetime,
        *,
        heard: int = 0,
        note: Metadata | None = None,
    ) -> list[Write]:
        """Return the write for a turn spoken just now, or nothing if it is kept."""
        place = self.ledger.spoken(
            self.speaker, self.session_id, Turn.of(role, text), heard=heard
        )
        return [self.add(role, text, place, at, note)] if place else []


def entry(
    action: str,
    target: str,
    content: str,
    metadata: Mapping[str, Any],
    *,
    speaker: Speaker,
    at: datetime,
) -> Write | None:
    """Return the write that mirrors one call of the built-in memory tool.

    None when there is nothing to mirror: a blank text, a removal that names
    nothing, an action or target the host does not have.
    """
    if target not in (Target.MEMORY, Target.USER):
        return None
    text = storable(content, max_chars=MAX_ENTRY_CHARS)
    old_text = storable(metadata.get("old_text"), max_chars=MAX_ENTRY_CHARS)
    previous = storable(metadata.get("previous_content"), max_chars=MAX_ENTRY_CHARS)
    common: dict[str, Any] = {
        "theme": speaker.theme,
        "subject": speaker.subject,
        "target": Target(target),
        "at": at,
        "source": speaker.sources.get(Target(target)),
        "metadata": _provenance(_told(metadata), speaker),
    }
    match action:
        case "add" if text:
            return AddEntry(content=text, **common)
        case "replace" if text:
            return ReplaceEntry(
                content=text, old_text=old_text, previous=previous or None, **common
            )
        case "remove" if old_text or previous:
            return RemoveEntry(old_text=old_text, previous=previous or None, **common)
        case _:
            return None


def turn(
    user: object,
    assistant: object,
    messages: Sequence[Mapping[str, Any]] | None,
    *,
    room: Room,
    at: datetime,
) -> list[Write]:
    """Return the writes for one exchange that has just ended."""
    writes: list[Write] = []
    for role, said in ((Role.USER, user), (Role.ASSISTANT, assistant)):
        text = _turn_text(said, room.settings)
        if text is not None:
            heard = _times_heard(role, said, messages) if messages else 0
            writes += room.spoken(role, text, at, heard=heard)
        at += _MOMENT
    return writes


def transcript(
    messages: Iterable[Mapping[str, Any]],
    *,
    room: Room,
    at: datetime,
    brought_from: Mapping[str, float] = _NOWHERE,
) -> list[Write]:
    """Return writes for those turns of a whole session that are not kept yet.

    *at* is the time of the first turn; later ones whose message tells none follow it.
    What was said before the session began may be *brought_from* others, see `lineage`.
    """
    began = max(brought_from.values(), default=0.0)
    heard: Counter[TurnKey] = Counter()
    writes: list[Write] = []
    for role, text, spoken_at in _turns_of(messages, room):
        said = Turn.of(role, text)
        heard[said.key] += 1
        place = room.ledger.retold(
            room.speaker, room.session_id, said, ordinal=heard[said.key]
        )
        if place is not None:
            own = spoken_at is not None and spoken_at.timestamp() > began
            brought = _NOWHERE if own else brought_from
            writes.append(
                room.add(role, text, place, spoken_at or at, brought_from=brought)
            )
        at += _MOMENT
    return writes


def delegation(
    task: object, result: object, child_session_id: str, *, room: Room, at: datetime
) -> list[Write]:
    """Return the provenance edge of one delegation, and a turn that tells of it."""
    goal = storable(task, max_chars=MAX_TASK_CHARS)
    outcome = storable(result, max_chars=MAX_TURN_CHARS)
    child = clean(child_session_id, max_chars=512)
    edge = RecordDelegation(
        theme=room.speaker.theme,
        subject=room.speaker.subject,
        parent_session_id=room.session_id,
        child_session_id=child,
        task=goal,
        at=at,
        metadata=_provenance({}, room.speaker),
    )
    if not room.settings.sync_turns or not (goal or outcome):
        return [edge]
    text = f"[delegation] {goal}\n[result] {outcome or '(none)'}"
    note: Metadata = {"kind": "delegation", "child_session_id": child}
    return [edge, *room.spoken(Role.ASSISTANT, text, at, note=note)]


def _embeds(role: Role, text: str, settings: Settings) -> bool:
    match settings.conversation_embed_policy:
        case "none":
            return False
        case "substantive_only":
            return role is Role.USER or len(text) >= SUBSTANTIVE_CHARS
        case "all":
            return True


def _turns_of(
    messages: Iterable[Mapping[str, Any]], room: Room
) -> Iterator[tuple[Role, str, datetime | None]]:
    """Yield the turns worth keeping of a live transcript, which is only read.

    Only `content` counts: `api_content` holds our own recalled block, and reading it
    would feed memory to itself. Tool calls and their results are not spoken.
    """
    for message in _mappings(messages):
        said_by = message.get("role")
        role = _SPOKEN.get(said_by) if isinstance(said_by, str) else None
        if role is None:
            continue
        text = _turn_text(message.get("content"), room.settings)
        if text is not None:
            yield role, text, _spoken_at(message.get("timestamp"))


def _times_heard(
    role: Role, said: object, messages: Iterable[Mapping[str, Any]]
) -> int:
    """Count how often *role* says the very same thing in a transcript."""
    return sum(
        message.get("role") == role and message.get("content") == said
        for message in _mappings(messages)
    )


def _mappings(messages: Iterable[object]) -> Iterator[Mapping[str, Any]]:
    """Leave out what is no message: one odd item must not cost the others."""
    for message in messages:
        if isinstance(message, Mapping):
            yield cast("Mapping[str, Any]", message)


def _spoken_at(timestamp: object) -> datetime | None:
    """Read the host's time of a message: Unix seconds, or nothing we know."""
    if isinstance(timestamp, int | float) and 0 < timestamp < _FAR_FUTURE:
        return datetime.fromtimestamp(timestamp, UTC)
    return None


def _turn_text(said: object, settings: Settings) -> str | None:
    text = storable(flatten(said), max_chars=MAX_TURN_CHARS)
    return None if is_noise(text, min_chars=settings.turn_min_chars) else text


def _provenance(told: Metadata, speaker: Speaker) -> Metadata:
    """Add to what is *told* of a write where it was made."""
    origin = _origin(speaker.session_id, speaker.platform)
    return {**origin, **told} if told else origin


@lru_cache(maxsize=512)
def _origin(session_id: str, platform: str) -> Metadata:
    origin: dict[str, JsonScalar] = {}
    if session_id:
        origin["session_id"] = session_id
    if platform:
        origin["platform"] = platform
    return origin


def _told(metadata: Mapping[str, Any]) -> Metadata:
    """Pick what the host's metadata tells of a write; nobody's identity is in it."""
    return {
        key: clean(value, max_chars=200)
        for key in _PROVENANCE
        if isinstance(value := metadata.get(key), str) and value
    }
