"""How much of what was said is found again: scripts/bench locomo DIR [NAME ...].

DIR holds LoCoMo conversations (conv-*.json); NAMEs choose some of them. Every
conversation is its own theme. Each turn goes through the provider's `sync_turn`, each
question through the same recall as the tool's, with the limit raised to 50. The figure
is the share of a question's evidence turns among the first k, in percent, mean over the
questions that have evidence. The local model embeds.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from _stage import say, stage
from rich.console import Console
from rich.progress import track

from hermes_pgmemory import engines
from hermes_pgmemory.embedding_models import LOCAL_MODEL, profile_for
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.provider import PgvectorProvider
from hermes_pgmemory.recall import Deadline
from hermes_pgmemory.tools import own_scope

KS = (5, 10, 25, 50)
CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
CONSOLE = Console(stderr=True)


@dataclass(frozen=True)
class Turn:
    """One spoken turn; even ones are the user's, odd ones the assistant's."""

    id: str
    session: str
    text: str


def turns_of(conversation: dict[str, Any]) -> list[Turn]:
    """Return the turns of all sessions, in order."""
    turns: list[Turn] = []
    number = 1
    while f"session_{number}" in conversation:
        for said in conversation[f"session_{number}"]:
            caption = said.get("blip_caption")
            text = f"{said['speaker']}: {said['text']}"
            text += f" [shares {caption}]" if caption else ""
            turns.append(Turn(said["dia_id"], f"session {number}", text))
        number += 1
    return turns


def tell(provider: PgvectorProvider, turns: list[Turn]) -> None:
    """Let the provider hear every turn, and wait until all are stored."""
    for place, turn in enumerate(turns):
        said = (turn.text, "") if place % 2 == 0 else ("", turn.text)
        provider.sync_turn(*said, session_id=turn.session)
    engine = provider._engine  # noqa: SLF001 - measured from inside
    while engine.journal_depth:
        time.sleep(0.05)


def ask(provider: PgvectorProvider, question: str) -> list[str]:
    """Return the contents of the first 50 hits, best first."""
    session, engine = provider._session, provider._engine  # noqa: SLF001
    answer = engine.recall.turns(
        question,
        scope=own_scope(session.caller),
        session_id=None,
        limit=max(KS),
        deadline=Deadline(60),
    )
    assert answer.degraded is None, answer.degraded
    return [hit.content for hit in answer.hits]


def evidence(question: dict[str, Any], turns: list[Turn]) -> set[str]:
    """Return the texts of the turns that answer *question*."""
    named = re.findall(r"D\d+:\d+", " ".join(map(str, question.get("evidence", []))))
    return {turn.text for turn in turns if turn.id in named}


def main() -> None:
    """Measure, then print one line of JSON."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("../shared/data/locomo")
    names = sys.argv[2:] or sorted(path.stem for path in folder.glob("conv-*.json"))
    profile = profile_for(LOCAL_MODEL)
    model = EmbeddingModel(
        name=LOCAL_MODEL,
        dimension=384,
        query_prefix=profile.query_prefix,
        document_prefix=profile.document_prefix,
    )
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    with stage() as scene:
        settings = {"dsn": scene.ours("locomo", model), "turn_min_chars": 0}
        home = scene.home("locomo", settings)
        for name in names:
            data = json.loads((folder / f"{name}.json").read_text())
            turns = turns_of(data["conversation"])
            provider = PgvectorProvider()
            provider.initialize(
                "measure", hermes_home=str(home), gateway_session_key=name
            )
            started = time.monotonic()
            tell(provider, turns)
            say(f"{name}: {len(turns)} turns in {time.monotonic() - started:.0f} s")
            for question in track(data["qa"], description=name, console=CONSOLE):
                wanted = evidence(question, turns)
                if not wanted:
                    continue
                hits = ask(provider, question["question"])
                for k in KS:
                    share = len(wanted.intersection(hits[:k])) / len(wanted)
                    found["all", k].append(share)
                    found[CATEGORIES[question["category"]], k].append(share)
            provider.shutdown()
        engines.close_all()
    percent = {key: round(100 * fmean(shares), 1) for key, shares in found.items()}
    report = {
        "questions": len(found["all", 5]),
        "conversations": names,
        "recall": {str(k): percent["all", k] for k in KS},
        "by_category": {
            category: {str(k): percent[category, k] for k in KS}
            for category in CATEGORIES.values()
            if (category, 5) in percent
        },
        "embedder": LOCAL_MODEL,
    }
    print(json.dumps(report))


main()
