"""The recall tools' arguments: what a model may ask, checked.

The tools' JSON schemas and the checks stand side by side, so that no bound is
written twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.models import Facets, Role, Scope, Subject, Target, Theme
from hermes_pgmemory.moments import Period, period
from hermes_pgmemory.text import clean

LIMIT_MIN: Final = 1
LIMIT_MAX: Final = 20
LIMIT_DEFAULT: Final = 5
MAX_PLATFORM_CHARS: Final = 40

RECALL_MEMORY: Final = "recall_memory"
RECALL_CONVERSATION: Final = "recall_conversation"

_QUERY: Final = {
    "type": "string",
    "description": "What to look for, as a question or in key words.",
}
_LIMIT: Final = {
    "type": "integer",
    "minimum": LIMIT_MIN,
    "maximum": LIMIT_MAX,
    "default": LIMIT_DEFAULT,
    "description": "How many results to return at most.",
}
_FACETS: Final = {
    "since": {
        "type": "string",
        "description": (
            "Only what is from then or later: a day (2026-05-03), a month (2026-05), "
            "a year, or a time (2026-05-03T14:00+02:00; UTC without an offset)."
        ),
    },
    "until": {
        "type": "string",
        "description": (
            "Only what is from then or earlier, to the end of that day, month or year."
        ),
    },
    "platform": {
        "type": "string",
        "description": "Only what came by this platform, such as 'cli' or 'telegram'.",
    },
}
_ROLES: Final = tuple(role.value for role in Role)
_TARGETS: Final = ("memory", "user", "both")

TOOL_SCHEMAS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": RECALL_MEMORY,
        "description": (
            "Search the durable notes saved with the memory tool, by meaning and by "
            "words, beyond the few shown in the prompt. Use it before saying that "
            "something is not known, and with another scope for what other agents "
            "of the fleet noted."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "query": _QUERY,
                "scope": {
                    "type": "string",
                    "description": (
                        "Whose notes: 'current' (this agent's theme), 'all', or the "
                        "name of another theme."
                    ),
                },
                "target": {
                    "type": "string",
                    "enum": list(_TARGETS),
                    "default": "both",
                    "description": (
                        "'memory' for facts and conventions, 'user' for what is known "
                        "about the user, 'both' for either."
                    ),
                },
                **_FACETS,
                "limit": _LIMIT,
            },
            "required": ["query"],
        },
    },
    {
        "name": RECALL_CONVERSATION,
        "description": (
            "Search what was said in earlier turns and sessions, by meaning and by "
            "words. A result comes with the beginnings of the turns before and after."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "query": _QUERY,
                "scope": {
                    "type": "string",
                    "description": (
                        "Where: 'current' (this agent's theme), 'session' (this "
                        "conversation), 'all', or the name of another theme."
                    ),
                },
                **_FACETS,
                "role": {
                    "type": "string",
                    "enum": list(_ROLES),
                    "description": "Only what this one said; everyone if left out.",
                },
                "limit": _LIMIT,
            },
            "required": ["query"],
        },
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, and what that one may see."""

    theme: Theme
    subject: Subject | None
    governed: bool
    """Whether the caller sits in a bucket of private messages."""
    session_id: str
    scope_default: str
    cross_theme_recall: bool
    theme_named: Callable[[str], Theme]
    """Normalises a theme's name as identities are normalised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRequest:
    """A checked call of `recall_memory`."""

    query: str
    scope: Scope
    target: Target | None
    facets: Facets
    limit: int

    @classmethod
    def parse(cls, args: Mapping[str, Any], caller: Caller) -> EntryRequest:
        """Check *args*.

        Raises:
            BadRequest: Names the argument and what it may be.
        """
        target = _given(args, "target", "both")
        if target not in _TARGETS:
            raise BadRequest("target must be one of 'memory', 'user', 'both'")
        return cls(
            query=_query(args),
            scope=scope_named(_scope_name(args, caller), caller),
            target=None if target == "both" else Target(target),
            facets=_facets(args),
            limit=_limit(args),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """A checked call of `recall_conversation`."""

    query: str
    scope: Scope
    session_id: str | None
    facets: Facets
    limit: int

    @classmethod
    def parse(cls, args: Mapping[str, Any], caller: Caller) -> TurnRequest:
        """Check *args*.

        Raises:
            BadRequest: Names the argument and what it may be.
        """
        name = _scope_name(args, caller)
        in_session = name.casefold() == "session"
        return cls(
            query=_query(args),
            scope=scope_named("current" if in_session else name, caller),
            session_id=caller.session_id if in_session else None,
            facets=replace(_facets(args), role=_role(args)),
            limit=_limit(args),
        )


def own_scope(caller: Caller) -> Scope:
    """Return the scope that is always allowed: the caller's own rows."""
    return Scope(theme=caller.theme, subject=caller.subject)


def check_crossing(caller: Caller) -> None:
    """Refuse a private chat's caller anything beyond its own rows.

    Raises:
        BadRequest: The caller is one, and the operator does not let it.
    """
    if caller.governed and not caller.cross_theme_recall:
        raise BadRequest("scope must be 'current': private chats recall only their own")


def _scope_name(args: Mapping[str, Any], caller: Caller) -> str:
    name = _given(args, "scope", caller.scope_default)
    if not isinstance(name, str):
        raise BadRequest("scope must be a string: 'current', 'all' or a theme's name")
    return name.strip() or "current"


def scope_named(name: str, caller: Caller) -> Scope:
    """Turn a scope's name into rows the caller may see.

    Raises:
        BadRequest: The caller may see its own rows only.
    """
    if name.casefold() == "current":
        return own_scope(caller)
    theme = None if name.casefold() == "all" else caller.theme_named(name)
    if theme == caller.theme:
        return own_scope(caller)
    check_crossing(caller)
    return Scope(theme=theme, subject=caller.subject, include_shared=True)


def _given(args: Mapping[str, Any], name: str, default: object) -> Any:
    """Return an argument; models spell "not given" as null or as an empty string."""
    value = args.get(name)
    return default if value is None or value == "" else value


def _facets(args: Mapping[str, Any]) -> Facets:
    since, until = _period(args, "since"), _period(args, "until")
    if since and until and since.start >= until.end:
        raise BadRequest("since must not be later than until")
    platform = _given(args, "platform", None)
    if not isinstance(platform, str | None):
        raise BadRequest("platform must be a name, such as 'cli' or 'telegram'")
    return Facets(
        since=since and since.start,
        until=until and until.end,
        platform=clean(platform, max_chars=MAX_PLATFORM_CHARS).strip() or None,
    )


def _period(args: Mapping[str, Any], name: str) -> Period | None:
    value = _given(args, name, None)
    if value is None:
        return None
    try:
        return period(value if isinstance(value, str) else "")
    except ValueError:
        raise BadRequest(
            f"{name} must be a date or time such as 2026-05-03, 2026-05 or "
            "2026-05-03T14:00+02:00"
        ) from None


def _role(args: Mapping[str, Any]) -> Role | None:
    role = _given(args, "role", None)
    if role is not None and role not in _ROLES:
        raise BadRequest(f"role must be one of {', '.join(map(repr, _ROLES))}")
    return role and Role(role)


def _query(args: Mapping[str, Any]) -> str:
    query = args.get("query")
    if not isinstance(query, str) or not query.strip():
        raise BadRequest("query must be a non-empty string")
    return query


def _limit(args: Mapping[str, Any]) -> int:
    """Return the limit; a number out of range is taken to the nearest bound."""
    limit = _given(args, "limit", LIMIT_DEFAULT)
    try:
        number = float(limit)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(limit, bool) or math.isnan(number):
        raise BadRequest(
            f"limit must be a whole number from {LIMIT_MIN} to {LIMIT_MAX}"
        )
    return int(min(max(number, LIMIT_MIN), LIMIT_MAX))
