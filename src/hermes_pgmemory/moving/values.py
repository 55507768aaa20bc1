"""What readers take and give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from hermes_pgmemory.config import Settings, parse
from hermes_pgmemory.hygiene import MAX_ENTRY_CHARS, storable
from hermes_pgmemory.identity import Policy, resolve
from hermes_pgmemory.key_text import tidy
from hermes_pgmemory.models import (
    AddEntry,
    JsonScalar,
    Metadata,
    Subject,
    Target,
    Theme,
)
from hermes_pgmemory.moments import keepable
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.session_keys import PLATFORMS, chat_of
from hermes_pgmemory.settings_file import load_section
from hermes_pgmemory.store.moved import (
    Moved,
    MovedAgent,
    MovedEdge,
    MovedEntry,
    MovedTurn,
)
from hermes_pgmemory.text import clean

WORKSPACE: Final = "hermes"
"""What the host calls the workspace of every home."""
EMPTY: Final = "nothing in it"

_KINDS: Final[Mapping[type[Moved], str]] = {
    MovedEntry: "entries",
    MovedTurn: "turns",
    MovedEdge: "delegations",
    MovedAgent: "agents",
}


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that a reader found and leaves out."""

    theme: str
    """Where it would have gone; "" if nobody can tell."""
    kind: str
    why: str


Item = Moved | Skipped
Owner = tuple[Theme, Subject | None]


def kind_of(row: Moved) -> str:
    """Return what rows of this kind are called."""
    return _KINDS[type(row)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Where what is read belongs, by the rules that agents follow."""

    home: Path
    """The home whose settings hold where another's say nothing."""
    key: str
    """The database's secret, in hex."""
    model: str | None = None
    """The database's model: vectors of another are left out."""
    theme: str = ""
    """For what the source names no theme of."""
    platform: str = ""
    """The messaging platform that user ids in the source are of."""
    assistants: Sequence[str] = ("hermes", "assistant")
    """Peers that are the agent."""
    dsn: str = ""
    """The database that is read, by sources that are one."""
    table: str = "mem0"
    """The table in it, where the source lets one choose."""
    _known: dict[Path, tuple[Path, Settings]] = field(
        default_factory=dict[Path, tuple[Path, Settings]], compare=False
    )

    def settings_of(self, home: Path) -> tuple[Path, Settings]:
        """Return the settings that govern a home's rows, and the home they are of."""
        if home not in self._known:
            section = load_section(HomePaths(home).config)
            chosen = home if section else self.home
            settings = parse(load_section(HomePaths(chosen).config)).checked()
            self._known[home] = chosen, settings
        return self._known[home]

    def owner(
        self, *, name: str = "", user: str = "", key: str = "", platform: str = ""
    ) -> Owner:
        """Return whose what somebody of elsewhere said is.

        Args:
            name: The agent, or what else a theme may be called after.
            user: About whom it is. One that is a contact, by its looks or because the
                platform is known, makes it that contact's.
            key: The conversation, where that may tell the contact.
            platform: Where *user* wrote from, if the source says so. It makes no
                contact of a user who does not look like one.
        """
        looks = is_contact(user)
        known = self.platform or (platform if looks and platform in PLATFORMS else "")
        contact = user if known or looks else ""
        session = key if is_contact(key) else ""
        if contact and not known:
            session = session or contact
        if contact and known:
            return self.heard(
                name=name, platform=known, chat_type="dm", user=contact, key=session
            )
        return self.heard(name=name, key=session)

    def heard(
        self,
        *,
        name: str = "",
        platform: str = "",
        chat_type: str = "",
        user: str = "",
        chat: str = "",
        key: str = "",
    ) -> Owner:
        """Return whose what was said in a chat is, by what the host told of the chat.

        Args:
            name: The agent, or what else a theme may be called after.
            platform: Where it was said; on one where nobody chats, *name* decides.
            chat_type: The host's word for its kind.
            user: Who wrote, as the platform calls them.
            chat: What the platform calls the chat.
            key: The host's own key of it.
        """
        _, settings = self.settings_of(self.home)
        who = resolve(
            gateway_session_key=key or None,
            agent_identity=self.theme or name,
            agent_workspace=WORKSPACE,
            platform=platform or None,
            chat_type=chat_type or None,
            user_id=user or None,
            user_id_alt=None,
            chat_id=chat or None,
            policy=policy_of(settings),
        )
        subject = who.contact and who.contact.subject(bytes.fromhex(self.key))
        return who.theme, subject


class Reader(Protocol):
    """Reads one kind of source."""

    def __call__(self, paths: Sequence[Path], aim: Aim, /) -> Iterator[Item]:
        """Yield what the files at *paths* hold, in the order to keep it in."""
        ...


def policy_of(settings: Settings) -> Policy:
    """Return what the operator decided about identities."""
    return Policy(
        aliases=settings.identity_aliases,
        allowed_themes=settings.allowed_themes,
        bench_mode=settings.bench_mode,
    )


def entry(
    owner: Owner,
    content: object,
    *,
    at: datetime,
    source: str,
    target: Target = Target.MEMORY,
    updated_at: datetime | None = None,
    note: Mapping[str, object] | None = None,
) -> Item:
    """Return an entry of another memory, cleaned as an agent's own is."""
    theme, subject = owner
    text = storable(content, max_chars=MAX_ENTRY_CHARS)
    if not text:
        return Skipped(theme, "entries", EMPTY)
    add = AddEntry(
        theme=theme,
        subject=subject,
        target=target,
        content=text,
        at=at,
        metadata=provenance(source, note or {}, private=subject is not None),
    )
    return MovedEntry(write=add, updated_at=max(at, updated_at or at))


def provenance(
    source: str, note: Mapping[str, object], *, private: bool = False
) -> Metadata:
    """Return where a row came from; a private one keeps nothing that names anybody."""
    told: dict[str, JsonScalar] = {"write_origin": "import", "import_source": source}
    for key, value in note.items():
        if value in (None, "") or (private and key != "import_id"):
            continue
        plain = isinstance(value, bool | int | float)
        told[key] = value if plain else clean(str(value), max_chars=200)
    return told


def moment(value: object) -> datetime | None:
    """Read a time: ISO 8601, UTC where it tells no zone, or Unix seconds."""
    try:
        if isinstance(value, int | float):
            return keepable(datetime.fromtimestamp(value, UTC))
        if isinstance(value, str) and value.strip():
            at = datetime.fromisoformat(value.strip())
            return keepable(at if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError, OSError):
        return None
    return None


def first_moment(said: Mapping[str, Any], *names: str) -> datetime | None:
    """Return the first time among the fields *names*."""
    found = (moment(said.get(name)) for name in names)
    return next((at for at in found if at is not None), None)


def is_contact(text: str) -> bool:
    """Tell whether *text* looks like a person's or a group's, not like a theme."""
    return bool(text) and chat_of(tidy(text)) is not None
