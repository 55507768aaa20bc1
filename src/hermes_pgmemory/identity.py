"""Who an agent is: from what the host passes to one governed theme.

Resolved once, when an agent starts, and never again while reading: rows keep the
theme they were written under. The order of sources is the session key (the
`X-Hermes-Session-Key` header, or the gateway's routing key), the profile unless it
is `default`, the workspace, `default`. Blank counts as absent.

The rules, in order; the first that fits decides. A theme resolves to itself.

| # | rule           | applies to                           | theme                 |
|---|----------------|--------------------------------------|-----------------------|
| 0 | EMPTY          | no source names anything             | default               |
| 1 | ALIAS          | a key of the operator's aliases;     | the alias's target,   |
|   |                | outranks 2 where it names the        | through rules 3 to 6  |
|   |                | session key itself                   |                       |
| 2 | DIRECT_MESSAGE | the host says: a chat with one       | whatsapp-dm           |
|   | GROUP          | the host says: any other chat        | external-group        |
| 3 | the same two   | the key looks like a chat's, or      | the same              |
|   |                | holds a number, address or handle:   |                       |
|   |                | the table in `session_keys`          |                       |
| 4 | BENCH          | skill-bench*, *-bench, *-bench-ws    | _bench                |
|   | BENCH_REJECTED | the same with `bench_mode: reject`   | default               |
| 5 | NOT_ALLOWED    | not among the allowed themes, if any | default               |
| 6 | FOLDED         | differs in case, space, length only  | the key, folded       |
|   | UNCHANGED      | all others                           | the key               |

The themes of rules 2 to 4 are *governed*. Their names, and `default`, cannot be
renamed by an alias, and the allow-list always lets them pass.

**Subjects.** A direct message belongs to the person: the platform with the user id
that the host passes (`user_id_alt` first), else the chat id, else the session key as
it is, thread ids and all: one person's threads may then be two subjects, but two
persons are never one. WhatsApp comes by its session key first, because only there
the host has merged the two ids of a person. A group belongs to the chat, not to the
speaker; a webhook to its route, because every delivery is a chat of its own. A bare
key that an API client sends is a subject apart from the native chat of that name:
sending another's key shows nothing of theirs. Where a chat names nobody, its
messages share one subject per platform, as the host shares one session. Benchmarks
have no subject.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from hermes_pgmemory import session_keys
from hermes_pgmemory.contacts import Contact
from hermes_pgmemory.key_text import fold, shorten, tidy
from hermes_pgmemory.models import AgentKind, Theme
from hermes_pgmemory.session_keys import Chat

DM_THEME: Final = Theme("whatsapp-dm")
GROUP_THEME: Final = Theme("external-group")
BENCH_THEME: Final = Theme("_bench")
DEFAULT_THEME: Final = Theme("default")
RESERVED: Final = frozenset({DM_THEME, GROUP_THEME, BENCH_THEME, DEFAULT_THEME})

LOCAL: Final = frozenset(
    """
    acp api_server batch cli cron curator desktop gateway local subagent tui web
    """.split()  # noqa: SIM905
)
"""Platforms where nobody chats: their runs are themes unless the key says not."""

_BENCH: Final = re.compile(r"skill-bench.*|(?:.*-)?bench(?:-ws)?", re.DOTALL)
_BRIDGES: Final = frozenset({"raft"})
"""Platforms whose user id names the bridge, so that the chat id names the peer."""


class Rule(StrEnum):
    """Which rule of the table decided."""

    EMPTY = "empty"
    ALIAS = "alias"
    DIRECT_MESSAGE = "dm-bucket"
    GROUP = "group-bucket"
    BENCH = "bench-bucket"
    BENCH_REJECTED = "bench-reject"
    NOT_ALLOWED = "not-in-allowlist"
    FOLDED = "folded"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the operator decided about identities; names are compared folded."""

    aliases: Mapping[str, str]
    """Identity to the identity that replaces it; chains are followed."""
    allowed_themes: Collection[str]
    """Themes that may exist; empty allows all."""
    bench_mode: Literal["bucket", "reject"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One agent's resolved identity; safe to log."""

    theme: Theme
    kind: AgentKind
    rule: Rule
    contact: Contact | None
    """Whose private rows these are; None where rows belong to the theme."""
    governed: bool
    """Whether the theme is a bucket that must not see other themes."""
    safe_label: str
    """The theme; for NOT_ALLOWED a hint at the name that was refused, no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What the host told about a run; blank where it told nothing."""

    key: str
    """The value that names the identity, as it came."""
    from_session: bool
    platform: str
    chat_type: str
    user_id: str
    chat_id: str


def resolve(
    *,
    gateway_session_key: object,
    agent_identity: object,
    agent_workspace: object,
    platform: object,
    chat_type: object,
    user_id: object,
    user_id_alt: object,
    chat_id: object,
    policy: Policy,
) -> Identity:
    """Decide whose memory a run reads and writes.

    Never fails: a value that is no text counts as absent (numbers are taken as ids),
    and any text, whatever its characters and length, ends in a theme of at most
    `key_text.MAX_THEME_CHARS` printable characters that is valid UTF-8.
    """
    profile = "" if fold(agent_identity) == DEFAULT_THEME else agent_identity
    sources = (gateway_session_key, profile, agent_workspace, agent_identity)
    key = next((_text(value) for value in sources if tidy(value)), "")
    run = _Run(
        key=key,
        from_session=bool(tidy(gateway_session_key)),
        platform=fold(platform),
        chat_type=fold(chat_type),
        user_id=_text(user_id_alt) or _text(user_id),
        chat_id=_text(chat_id),
    )
    name = fold(key)
    renamed = _follow(shorten(name), policy.aliases)
    chat = _chat(run, named_by_alias=renamed is not None and run.from_session)
    if chat is None and not name:
        return _identity(DEFAULT_THEME, Rule.EMPTY)
    chat = chat or _chat_named(renamed or tidy(key))
    if chat is not None:
        return _governed(chat, run)
    return _theme(renamed or shorten(name), _how(key, name, renamed), policy)


def _how(key: str, name: str, renamed: str | None) -> Rule:
    if renamed is not None:
        return Rule.ALIAS
    return Rule.UNCHANGED if shorten(name) == key else Rule.FOLDED


def _text(value: object) -> str:
    """Return *value* if it can identify something, else ""."""
    if isinstance(value, int) and not isinstance(value, bool):
        # Longer numbers are nobody's id, and cannot always be printed.
        return str(value) if value.bit_length() <= 64 else ""
    return value.strip() if isinstance(value, str) and tidy(value) else ""


def _follow(name: str, aliases: Mapping[str, str]) -> str | None:
    """Return what *name* is called in the end, None if it has no alias.

    A circle ends at its smallest name, wherever it is entered.
    """
    table = {
        shorten(fold(alias)): shorten(fold(target)) or DEFAULT_THEME
        for alias, target in aliases.items()
    }
    if not name or name not in table or name in RESERVED:
        return None
    trail = [name]
    while (target := table.get(trail[-1])) and trail[-1] not in RESERVED:
        if target in trail:
            return min(trail[trail.index(target) :])
        trail.append(target)
    return trail[-1]


def _chat(run: _Run, *, named_by_alias: bool) -> Chat | None:
    """Return the kind of chat that the host itself says a run belongs to."""
    if named_by_alias or run.platform in LOCAL:
        return None
    if run.chat_type:
        return session_keys.chat_of_type(run.chat_type)
    if run.platform in session_keys.PLATFORMS:
        # As private as can be, until the key tells that it is a group.
        return session_keys.chat_of(tidy(run.key)) or Chat.DM
    return None


def _chat_named(name: str) -> Chat | None:
    """Return the kind of chat that a tidy name stands for."""
    match fold(name):
        case "whatsapp-dm":
            return Chat.DM
        case "external-group":
            return Chat.GROUP
        case _:
            return session_keys.chat_of(name)


def _governed(chat: Chat, run: _Run) -> Identity:
    contact = _contact(chat, run)
    if chat is Chat.DM:
        return _identity(DM_THEME, Rule.DIRECT_MESSAGE, contact)
    return _identity(GROUP_THEME, Rule.GROUP, contact)


def _contact(chat: Chat, run: _Run) -> Contact:
    # The profile in front of a native key is ours, not the contact's.
    native = run.platform not in LOCAL and run.platform != ""
    key = run.key
    if native and key.startswith("agent:") and key.count(":") >= 2:
        key = key.split(":", 2)[2]
    ids = {"user": run.user_id, "chat": run.chat_id, "key": key}
    order = _order(chat, run) if native or run.chat_type else ("key",)
    kind = next((kind for kind in order if ids[kind]), "key")
    return Contact(run.platform, chat, kind, ids[kind])


def _order(chat: Chat, run: _Run) -> tuple[str, ...]:
    """Return which id names a contact, best first."""
    if chat is Chat.GROUP:
        if run.platform == "webhook":
            return ("user", "chat", "key")
        return ("chat", "key", "user")
    if run.platform == "whatsapp" and run.from_session:
        return ("key", "user", "chat")
    if run.platform in _BRIDGES:
        return ("chat", "user", "key")
    return ("user", "chat", "key")


def _theme(name: str, rule: Rule, policy: Policy) -> Identity:
    """Apply the rules for names that belong to no chat."""
    if name == BENCH_THEME or _BENCH.fullmatch(name):
        if policy.bench_mode == "reject":
            return _identity(DEFAULT_THEME, Rule.BENCH_REJECTED)
        return _identity(BENCH_THEME, Rule.BENCH)
    allowed = {shorten(fold(theme)) for theme in policy.allowed_themes} - {""}
    if allowed and name not in allowed | RESERVED:
        hint = f"'{name[: min(2, len(name) // 4)]}…' ({len(name)} characters)"
        return _identity(DEFAULT_THEME, Rule.NOT_ALLOWED, label=hint)
    return _identity(Theme(name), rule)


def _identity(
    theme: Theme, rule: Rule, contact: Contact | None = None, label: str = ""
) -> Identity:
    return Identity(
        theme=theme,
        kind=kind_of(theme),
        rule=rule,
        contact=contact,
        governed=is_governed(theme),
        safe_label=label or theme,
    )


def is_governed(theme: Theme) -> bool:
    """Tell whether *theme* is a bucket: other themes are not seen from there."""
    return theme in RESERVED - {DEFAULT_THEME}


def kind_of(theme: Theme) -> AgentKind:
    """Return what sort of identity *theme* stands for; never used for scoping."""
    known = {
        DEFAULT_THEME: AgentKind.DEFAULT,
        DM_THEME: AgentKind.DM,
        GROUP_THEME: AgentKind.GROUP,
        BENCH_THEME: AgentKind.BENCH,
    }
    if theme in known:
        return known[theme]
    return AgentKind.WORKER if theme.startswith("agent-") else AgentKind.THEME
