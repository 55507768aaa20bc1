"""What the fake chat model answers each program that asks it."""

from __future__ import annotations

import ast
import json
import re
from typing import Any, Final

Body = dict[str, Any]
FACT: Final = "Has a dog called Bello"
_CHUNK: Final = re.compile(r"^(?:Content|Text):\n(.*)", re.DOTALL | re.MULTILINE)
_LISTED: Final = re.compile(r"\[([0-9a-f-]{36})\] (.*?)(?: \(|$)", re.MULTILINE)
_OBSERVED: Final = re.compile(r'"id": "([0-9a-f-]{36})", "text": "It is known: Bob')
_OLD: Final = re.compile(r"(?:### Existing observations|EXISTING OBSERVATIONS \()")
_SAID: Final = re.compile(r"^(?:Input:\s*)?(?:user|assistant): (.*)$", re.MULTILINE)
_RETRIEVED: Final = re.compile(
    r"new retrieved facts.*?```\s*(\[.*?\])\s*```", re.DOTALL
)


def mem0(body: Body) -> Body:
    """Answer mem0, whose questions differ from version to version."""
    asked = str(body["messages"][-1]["content"])
    if retrieved := _RETRIEVED.findall(asked):  # 0.1 and 1: what becomes of the facts
        facts = ast.literal_eval(retrieved[-1])
        numbered = ({"id": str(n), "text": one} for n, one in enumerate(facts))
        return _json(memory=[{**one, "event": "ADD"} for one in numbered])
    rules = str(body["messages"][0]["content"])
    if '"facts"' in rules:  # and before that: the facts
        said = _SAID.findall(asked)
        return _json(facts=[FACT] if "My dog" in said[0] else said)
    told = {"id": "0", "text": FACT, "attributed_to": "user"}
    return _json(memory=[told])


def hindsight(body: Body) -> Body:
    """Answer Hindsight: what was said is the one fact in it."""
    asked = str(body["messages"][-1]["content"])
    if said := _CHUNK.search(asked):
        fact = {
            "what": said[1].strip(),
            **dict.fromkeys(("when", "where", "who", "why"), "N/A"),
            "fact_kind": "conversation",
            "fact_type": "world",
            "entities": [word for word in ("Alice", "Bob") if word in said[1]],
        }
        if "since 2024" in said[1]:
            fact |= {"fact_kind": "event", "occurred_start": "2024-01-01T00:00:00Z"}
        return _json(facts=[fact])
    new, *rest = _OLD.split(asked, maxsplit=1)
    old = "".join(rest)
    seen = _OBSERVED.findall(old)
    for number, text in _LISTED.findall(new):
        if text.startswith("The choir") and seen:  # seen of two chats together
            told = {
                "observation_id": seen[0],
                "text": "Bob drinks tea after the choir.",
            }
            return _json(updates=[{**told, "source_fact_ids": [number]}])
        if text.startswith(("Alice", "Bob")):
            told = {"text": f"It is known: {text}", "source_fact_ids": [number]}
            return _json(creates=[told])
    return _json()


def _json(**said: Any) -> Body:
    return {"content": json.dumps(said)}
