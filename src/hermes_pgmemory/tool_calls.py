"""From a recall tool's arguments to what it finds, and to its JSON answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from hermes_pgmemory import render, tools
from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.models import EntryHit, TurnHit
from hermes_pgmemory.recall import Answer, Deadline, Recall

BUDGET_S: Final = 6.0
"""Seconds a tool call may take; the agent waits for it."""


def answer(
    recall: Recall,
    tool: str,
    args: Mapping[str, Any],
    caller: tools.Caller,
    *,
    waiting: str | None = None,
) -> str:
    """Return what the model that called *tool* gets to read.

    *waiting* says why the newest writes are missing from it, if they are.
    """
    try:
        match tool:
            case tools.RECALL_MEMORY:
                notes = entries(recall, args, caller, waiting=waiting)
                return render.entries_json(notes.hits, notes.degraded)
            case tools.RECALL_CONVERSATION:
                said = turns(recall, args, caller, waiting=waiting)
                return render.turns_json(said.hits, said.degraded)
            case _:
                return render.error_json(f"unknown tool {tool!r}")
    except BadRequest as exc:
        return render.error_json(str(exc))


def entries(
    recall: Recall,
    args: Mapping[str, Any],
    caller: tools.Caller,
    *,
    waiting: str | None = None,
) -> Answer[EntryHit]:
    """Return what `recall_memory` finds.

    Raises:
        BadRequest: Names the argument of *args* that is wrong.
    """
    wanted = tools.EntryRequest.parse(args, caller)
    found = recall.entries(
        wanted.query,
        scope=wanted.scope,
        target=wanted.target,
        facets=wanted.facets,
        limit=wanted.limit,
        deadline=Deadline(BUDGET_S),
    )
    return replace(found, degraded=_both(found.degraded, waiting))


def turns(
    recall: Recall,
    args: Mapping[str, Any],
    caller: tools.Caller,
    *,
    waiting: str | None = None,
) -> Answer[TurnHit]:
    """Return what `recall_conversation` finds.

    Raises:
        BadRequest: Names the argument of *args* that is wrong.
    """
    wanted = tools.TurnRequest.parse(args, caller)
    found = recall.turns(
        wanted.query,
        scope=wanted.scope,
        session_id=wanted.session_id,
        facets=wanted.facets,
        limit=wanted.limit,
        deadline=Deadline(BUDGET_S),
    )
    return replace(found, degraded=_both(found.degraded, waiting))


def _both(degraded: str | None, waiting: str | None) -> str | None:
    """Return all that is missing in one line; None when nothing is."""
    return "; ".join(filter(None, [degraded, waiting])) or None
