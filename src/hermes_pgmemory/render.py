"""From recalled rows to text a model reads. Pure.

Recalled text is data: fence tags in it are defused, every row is dated and says
where it comes from, and nothing tells the model to obey it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from hermes_pgmemory.models import Entry, EntryHit, Theme, TurnHit
from hermes_pgmemory.text import clip, defuse_fences

MAX_NOTE_CHARS: Final = 1_000
MAX_BLOCK_CHARS: Final = 6_000
MAX_RESULT_CHARS: Final = 4_000


def prompt_block(theme: Theme) -> str:
    """Return the static note on this memory for the system prompt.

    Byte-stable for a theme: a changing count would void the model's prompt cache.
    """
    return (
        "# Shared memory (pgvector)\n"
        f'Notes saved with the memory tool are kept under the theme "{theme}" and can '
        "be recalled in any later session. `recall_memory` searches them beyond the "
        "few shown here, and other themes with `scope`; `recall_conversation` "
        "searches earlier conversations."
    )


def ambient(hits: Sequence[EntryHit], theme: Theme) -> str:
    """Return the notes injected before a turn; "" when there are none."""
    lines: list[str] = []
    room = MAX_BLOCK_CHARS
    for hit in hits:
        text = defuse_fences(clip(hit.content, MAX_NOTE_CHARS))
        line = f"- ({hit.updated_at:%Y-%m-%d}, {hit.target}) {text}"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    if not lines:
        return ""
    return "\n".join(
        [f'Background notes of theme "{theme}", with their dates:', *lines]
    )


def listing(entries: Sequence[Entry], theme: Theme) -> str:
    """Return entries one below the other, with their dates."""
    lines = [
        f"- ({entry.updated_at:%Y-%m-%d}, {entry.target}) {_result_text(entry.content)}"
        for entry in entries
    ]
    return "\n".join([f'Notes of theme "{theme}", newest first:', *lines])


def entries_json(hits: Sequence[EntryHit], degraded: str | None) -> str:
    """Return the answer of `recall_memory` as JSON text."""
    return json.dumps(entries_answer(hits, degraded), ensure_ascii=False)


def turns_json(hits: Sequence[TurnHit], degraded: str | None) -> str:
    """Return the answer of `recall_conversation` as JSON text."""
    return json.dumps(turns_answer(hits, degraded), ensure_ascii=False)


def entries_answer(hits: Sequence[EntryHit], degraded: str | None) -> dict[str, Any]:
    """Return the answer of `recall_memory`."""
    return _answer(
        [
            {
                "content": _result_text(hit.content),
                "theme": hit.theme,
                "target": hit.target,
                **_judgement(hit),
                "created_at": hit.created_at.isoformat(timespec="seconds"),
                "updated_at": hit.updated_at.isoformat(timespec="seconds"),
            }
            for hit in hits
        ],
        degraded,
    )


def turns_answer(hits: Sequence[TurnHit], degraded: str | None) -> dict[str, Any]:
    """Return the answer of `recall_conversation`."""
    return _answer(
        [
            {
                "content": _result_text(hit.content),
                "theme": hit.theme,
                "role": hit.role,
                "session_id": hit.session_id,
                **_judgement(hit),
                "at": hit.at.isoformat(timespec="seconds"),
                **_context(hit),
            }
            for hit in hits
        ],
        degraded,
    )


def _judgement(hit: EntryHit | TurnHit) -> dict[str, Any]:
    """Tell how well a hit fits and where it came from, as far as that is known."""
    told: dict[str, Any] = {"relevance": round(hit.relevance, 3)}
    if hit.similarity is not None:
        told["similarity"] = round(hit.similarity, 3)
    if hit.platform:
        told["platform"] = hit.platform
    return told


def _context(hit: TurnHit) -> dict[str, Any]:
    return {
        place: {"role": turn.role, "content": defuse_fences(turn.content)}
        for place, turn in (("before", hit.before), ("after", hit.after))
        if turn is not None
    }


def error_json(message: str) -> str:
    """Return a tool's answer to a call that cannot be carried out."""
    return json.dumps({"error": message}, ensure_ascii=False)


def _answer(results: list[dict[str, Any]], degraded: str | None) -> dict[str, Any]:
    answer: dict[str, Any] = {"results": results, "count": len(results)}
    if degraded:
        answer["degraded"] = degraded
    return answer


def _result_text(content: str) -> str:
    return defuse_fences(clip(content, MAX_RESULT_CHARS))
