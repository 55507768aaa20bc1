"""From a recall tool's call to its JSON answer, errors included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hermes_pgmemory import render, tools
from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.recall import Deadline, Recall

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
                return _memory(recall, tools.EntryRequest.parse(args, caller), waiting)
            case tools.RECALL_CONVERSATION:
                return _conversation(
                    recall, tools.TurnRequest.parse(args, caller), waiting
                )
            case _:
                return render.error_json(f"unknown tool {tool!r}")
    except BadRequest as exc:
        return render.error_json(str(exc))


def _memory(recall: Recall, wanted: tools.EntryRequest, waiting: str | None) -> str:
    found = recall.entries(
        wanted.query,
        scope=wanted.scope,
        target=wanted.target,
        facets=wanted.facets,
        limit=wanted.limit,
        deadline=Deadline(BUDGET_S),
    )
    return render.entries_json(found.hits, _both(found.degraded, waiting))


def _conversation(
    recall: Recall, wanted: tools.TurnRequest, waiting: str | None
) -> str:
    found = recall.turns(
        wanted.query,
        scope=wanted.scope,
        session_id=wanted.session_id,
        facets=wanted.facets,
        limit=wanted.limit,
        deadline=Deadline(BUDGET_S),
    )
    return render.turns_json(found.hits, _both(found.degraded, waiting))


def _both(degraded: str | None, waiting: str | None) -> str | None:
    """Return all that is missing in one line; None when nothing is."""
    return "; ".join(filter(None, [degraded, waiting])) or None
