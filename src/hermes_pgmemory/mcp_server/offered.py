"""The tools that are offered: names, schemas, and what each does with a memory.

Knows nothing of the protocol. What the provider offers its agents is offered in the
same words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hermes_pgmemory import render
from hermes_pgmemory.errors import BadRequest, SchemaError, Unavailable
from hermes_pgmemory.memory import Memory
from hermes_pgmemory.models import Theme
from hermes_pgmemory.tools import RECALL_CONVERSATION, RECALL_MEMORY, TOOL_SCHEMAS

STORED_S: Final = 3.0
"""Seconds that a write waits to be searchable before it is answered."""
LISTED: Final = 50
"""Entries of a theme that its resource shows."""
_AMBIGUOUS: Final = 20

Arguments = Mapping[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool, and what clients may assume of it."""

    name: str
    title: str
    description: str
    schema: Mapping[str, Any]
    reads_only: bool
    destroys: bool
    run: Callable[[Memory, Arguments], Answer]
    """Answers a call; raises `PgMemoryError` where there is nothing to answer."""


def _recall_memory(memory: Memory, args: Arguments) -> Answer:
    found = memory.recall(
        args.get("query"),  # pyright: ignore[reportArgumentType] - checked there
        scope=args.get("scope"),
        target=args.get("target"),  # pyright: ignore[reportArgumentType]
        since=args.get("since"),
        until=args.get("until"),
        platform=args.get("platform"),
        limit=args.get("limit"),  # pyright: ignore[reportArgumentType]
    )
    return render.entries_answer(found, found.degraded)


def _recall_conversation(memory: Memory, args: Arguments) -> Answer:
    found = memory.recall_turns(
        args.get("query"),  # pyright: ignore[reportArgumentType] - checked there
        scope=args.get("scope"),
        role=args.get("role"),
        since=args.get("since"),
        until=args.get("until"),
        platform=args.get("platform"),
        limit=args.get("limit"),  # pyright: ignore[reportArgumentType]
    )
    return render.turns_answer(found, found.degraded)


def _remember(memory: Memory, args: Arguments) -> Answer:
    memory.add(_text(args), target=_target(args))
    return _kept(memory)


def _forget(memory: Memory, args: Arguments) -> Answer:
    """Remove the one entry that holds a text, as the host's own tool would."""
    text, target = _text(args), _target(args)
    try:
        memory.flush(timeout_s=STORED_S)
        held = memory.entries(holding=text, target=target, limit=_AMBIGUOUS)
    except (Unavailable, SchemaError) as exc:
        memory.remove(text, target=target)
        later = f"removed later, from the newest entry that holds it: {exc}"
        return {"accepted": True, "theme": memory.theme, "degraded": later}
    contents = {entry.content for entry in held}
    if not contents:
        raise BadRequest("no entry of this theme and target holds that text")
    if len(contents) > 1 and text.strip() not in contents:
        raise BadRequest("several entries hold that text: give more of it")
    content = text.strip() if text.strip() in contents else contents.pop()
    memory.remove(content, target=target, whole=True)
    return _kept(memory) | {"forgotten": content}


def _list_themes(memory: Memory, _: Arguments) -> Answer:
    themes = [
        {
            "theme": one.theme,
            "kind": one.kind,
            "entries": one.entries,
            "turns": one.turns,
            "last_seen": one.last_seen and one.last_seen.isoformat(timespec="seconds"),
        }
        for one in memory.themes()
    ]
    return {"themes": themes, "count": len(themes)}


def listing(memory: Memory, theme: str) -> str:
    """Return the newest entries of *theme*, as far as *memory* may see them.

    Raises:
        BadRequest: It may not, or *theme* is blank.
        Unavailable: The database does not answer now.
    """
    if not theme.strip():
        raise BadRequest("the address names no theme")
    scope = "current" if theme == memory.theme else theme
    return render.listing(memory.entries(scope=scope, limit=LISTED), Theme(theme))


def _kept(memory: Memory) -> Answer:
    answer: Answer = {"accepted": True, "theme": memory.theme}
    try:
        memory.flush(timeout_s=STORED_S)
    except Unavailable as exc:
        answer["degraded"] = str(exc)
    return answer


def _text(args: Arguments) -> str:
    text = args.get("text")
    if not isinstance(text, str) or not text.strip():
        raise BadRequest("text must be a non-empty string")
    return text


def _target(args: Arguments) -> Any:
    """Return the target for `Memory` to check; models spell "not given" as null."""
    return args.get("target") or "memory"


_DECLARED: Final = {tool["name"]: tool for tool in TOOL_SCHEMAS}
_SCOPE_OF_TURNS: Final = {
    "type": "string",
    "description": "Where: 'current' (this theme), 'all', or another theme's name.",
}
"""Without 'session': a client's own conversation is not kept here."""
_TARGET: Final = {
    "type": "string",
    "enum": ["memory", "user"],
    "default": "memory",
    "description": "'user' for what is known about the user, 'memory' for the rest.",
}


def _entry_schema(text: str) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": text},
            "target": _TARGET,
        },
        "required": ["text"],
    }


def _turn_schema() -> Mapping[str, Any]:
    declared = _DECLARED[RECALL_CONVERSATION]["parameters"]
    properties = {**declared["properties"], "scope": _SCOPE_OF_TURNS}
    return {**declared, "properties": properties}


_READS: Final = (
    Tool(
        name=RECALL_MEMORY,
        title="Search memory",
        description=_DECLARED[RECALL_MEMORY]["description"],
        schema=_DECLARED[RECALL_MEMORY]["parameters"],
        reads_only=True,
        destroys=False,
        run=_recall_memory,
    ),
    Tool(
        name=RECALL_CONVERSATION,
        title="Search conversations",
        description=_DECLARED[RECALL_CONVERSATION]["description"],
        schema=_turn_schema(),
        reads_only=True,
        destroys=False,
        run=_recall_conversation,
    ),
    Tool(
        name="list_themes",
        title="List themes",
        description=(
            "List the themes whose notes and conversations can be searched with "
            "`scope`, and how much each holds."
        ),
        schema={"type": "object", "properties": {}},
        reads_only=True,
        destroys=False,
        run=_list_themes,
    ),
)
_WRITES: Final = (
    Tool(
        name="remember",
        title="Remember",
        description=(
            "Keep one note for good, in this theme: a fact, a decision, a preference, "
            "in a sentence that is understood without the conversation around it. What "
            "is known already is left alone. Never a secret."
        ),
        schema=_entry_schema("The note."),
        reads_only=False,
        destroys=False,
        run=_remember,
    ),
    Tool(
        name="forget",
        title="Forget one note",
        description=(
            "Delete one note of this theme for good, named by its text or a part of it "
            "that no other note holds."
        ),
        schema=_entry_schema("The note, or a part of it, in its very letters."),
        reads_only=False,
        destroys=True,
        run=_forget,
    ),
)


def tools(*, read_only: bool) -> Mapping[str, Tool]:
    """Return the tools by name; *read_only* leaves out those that write."""
    offered = _READS if read_only else (*_READS, *_WRITES)
    return {tool.name: tool for tool in offered}
