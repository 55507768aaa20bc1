"""What really reached the model: recalls and ambient memory, read from its log.

The log holds the host's requests as they came over the wire, so a recall counts only
if it went all the way: database, provider, host, model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _quickstart.chat_model import split_memory, text_of
from _quickstart.minions import MINIONS


@dataclass(frozen=True, kw_only=True)
class Recall:
    """One answer of a recall tool."""

    theme: str
    """Who asked."""
    tool: str
    query: str
    scope: str
    """As asked for; "" is the default."""
    result: str


@dataclass(frozen=True, kw_only=True)
class Ambient:
    """What the host put before the model, unasked, with one user message."""

    theme: str
    said: str
    memory: str
    """The recalled block; "" if there was none."""


@dataclass(frozen=True)
class Evidence:
    """Everything that was recalled in a stretch of the log."""

    recalls: tuple[Recall, ...]
    ambient: tuple[Ambient, ...]


def read_log(path: Path, start: int = 0) -> list[dict[str, Any]]:
    """Return the request bodies in the log at *path*, from the *start*-th on."""
    with path.open(encoding="utf-8") as log:
        return [json.loads(line)["body"] for line in log][start:]


def gather(requests: Iterable[dict[str, Any]]) -> Evidence:
    """Collect each tool answer and each ambient block once."""
    recalls: dict[str, Recall] = {}
    ambient: dict[tuple[str, str], Ambient] = {}
    for request in requests:
        messages = request["messages"]
        theme = _theme(messages)
        if not theme:
            # The host's own review of a conversation: it repeats what was recalled.
            continue
        recalls.update(_recalls(theme, messages))
        said, memory = split_memory(_last_said(messages))
        ambient[theme, said] = Ambient(theme=theme, said=said, memory=memory)
    return Evidence(tuple(recalls.values()), tuple(ambient.values()))


def _theme(messages: list[dict[str, Any]]) -> str:
    """Return who is being run: the persona in the system prompt tells."""
    prompt = "".join(
        text_of(message.get("content"))
        for message in messages
        if message["role"] == "system"
    )
    return next((m.theme for m in MINIONS if m.persona in prompt), "")


def _last_said(messages: list[dict[str, Any]]) -> str:
    said = [m.get("content") for m in messages if m["role"] == "user"]
    return text_of(said[-1]) if said else ""


def _recalls(
    theme: str, messages: list[dict[str, Any]]
) -> Iterator[tuple[str, Recall]]:
    """Yield each answered recall with the id of its call."""
    results = {
        message["tool_call_id"]: text_of(message.get("content"))
        for message in messages
        if message["role"] == "tool"
    }
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    for call in calls:
        name = call["function"]["name"]
        if name.startswith("recall_") and call["id"] in results:
            arguments = json.loads(call["function"]["arguments"])
            yield (
                call["id"],
                Recall(
                    theme=theme,
                    tool=name,
                    query=arguments["query"],
                    scope=arguments.get("scope", ""),
                    result=results[call["id"]],
                ),
            )
