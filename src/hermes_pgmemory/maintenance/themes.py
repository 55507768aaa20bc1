"""Names of themes as an operator gives them, and as a log may tell them."""

from __future__ import annotations

from typing import Final

from hermes_pgmemory import identity
from hermes_pgmemory.config import Settings
from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.identity import Identity, Policy, Rule
from hermes_pgmemory.models import Theme

_OPEN: Final = Policy(aliases={}, allowed_themes=(), bench_mode="bucket")


def themes_to_remap(
    old: str, new: str, settings: Settings, *, force: bool
) -> tuple[str, Theme]:
    """Return both themes as the database spells them.

    *old* is taken as it is: an adopted database holds names that no agent has now.
    *new* becomes what an agent of that name would be.

    Raises:
        BadRequest: They are one, or rows must not go from or to there.
    """
    policy = Policy(
        aliases=settings.identity_aliases,
        allowed_themes=settings.allowed_themes,
        bench_mode=settings.bench_mode,
    )
    who = _resolve(new, policy)
    if who.rule is Rule.EMPTY or not old.strip():
        raise BadRequest("a theme's name cannot be blank")
    if who.rule is Rule.NOT_ALLOWED:
        raise BadRequest(
            f"{who.safe_label} is not among plugins.pgvector.allowed_themes: no agent "
            "could recall what was moved there"
        )
    if old == who.theme:
        raise BadRequest(f"{label(old)} and {who.theme} are one theme")
    if is_governed(old) and not force:
        raise BadRequest(
            f"{old} holds rows that belong to single contacts, who find them nowhere "
            "else: --force moves them all the same"
        )
    return old, who.theme


def is_governed(theme: str) -> bool:
    """Tell whether *theme* is a bucket whose rows belong to single contacts."""
    return theme in identity.RESERVED - {identity.DEFAULT_THEME}


def label(theme: str) -> str:
    """Return a name for *theme* that may be logged: a contact's key is not one."""
    who = _resolve(theme, _OPEN)
    if who.rule in (Rule.DIRECT_MESSAGE, Rule.GROUP) and theme != who.theme:
        return f"(a contact's key of {who.theme})"
    return theme


def _resolve(name: str, policy: Policy) -> Identity:
    return identity.resolve(
        gateway_session_key=None,
        agent_identity=name,
        agent_workspace=None,
        platform=None,
        chat_type=None,
        user_id=None,
        user_id_alt=None,
        chat_id=None,
        policy=policy,
    )
