"""How much of what was said is found again: scripts/bench locomo DIR [NAME ...].

DIR holds LoCoMo conversations (conv-*.json); NAMEs choose some of them. Every
conversation is its own theme. Each turn goes through the provider's `sync_turn`, each
question through the same recall as the tool's, with the limit raised to 50. The figure
is the share of a question's evidence turns among the first k, in percent, mean over the
questions that have evidence. The local model embeds; the reference gets its vectors of
the same texts and runs its own hybrid search, on the same server. `without` are the
same questions, asked of the same rows, when one ingredient is left out.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import psycopg
from _stage import HERE, Stage, drive, say, stage
from rich.console import Console
from rich.progress import track

from hermes_pgmemory import engines, ranking
from hermes_pgmemory.config import Settings
from hermes_pgmemory.embed import Embedder, make_embedder
from hermes_pgmemory.embedding_models import LOCAL_MODEL, profile_for
from hermes_pgmemory.hygiene import MAX_TURN_CHARS, storable
from hermes_pgmemory.models import Vector
from hermes_pgmemory.provider import PgvectorProvider
from hermes_pgmemory.question import Question
from hermes_pgmemory.recall import Deadline
from hermes_pgmemory.setup import named_model
from hermes_pgmemory.tools import own_scope

KS = (5, 10, 25, 50)
DIMENSION = 384
TUNED_ON = frozenset({"conv-26", "conv-30", "conv-41", "conv-42"})
"""The conversations that the weights were chosen on; the others are the report."""
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
            # As it is stored, so that a hit can be told by its words.
            text = storable(text, max_chars=MAX_TURN_CHARS)
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


def ask(provider: PgvectorProvider, question: str, places: dict[str, int]) -> list[int]:
    """Return the places of the first 50 hits, best first."""
    session, engine = provider._session, provider._engine  # noqa: SLF001
    answer = engine.recall.turns(
        question,
        scope=own_scope(session.caller),
        session_id=None,
        limit=max(KS),
        deadline=Deadline(60),
    )
    assert answer.degraded is None, answer.degraded
    return [places[hit.content] for hit in answer.hits]


def ask_without(
    provider: PgvectorProvider, question: str, places: dict[str, int], model: Embedder
) -> dict[str, list[int]]:
    """Return the same, by what is left out of the search."""

    def ask_store(text: str, vector: Vector | None) -> list[int]:
        session, engine = provider._session, provider._engine  # noqa: SLF001
        asked = Question(
            text=text,
            vector=vector,
            scope=own_scope(session.caller),
            limit=max(KS),
            scale=profile_for(LOCAL_MODEL).scale,
        )
        hits = engine._store.search_turns(asked, timeout_s=60)  # noqa: SLF001
        return [places[hit.content] for hit in hits]

    vector = model.embed_query(question, timeout_s=60)
    without = {
        "words": ask_store("", vector),
        "meaning": ask_store(question, None),
    }
    with patch.object(ranking, "in_context", lambda scores, *_: scores):
        without["context"] = ask_store(question, vector)
    return without


def ask_reference(
    scene: Stage, name: str, turns: list[Turn], questions: list[str], model: Embedder
) -> list[list[int]]:
    """Return the places of the first 50 hits of each question."""
    vectors = [
        vector
        for start in track(
            range(0, len(turns), 64), description=f"{name}, vectors", console=CONSOLE
        )
        for vector in model.embed_documents(
            [turn.text for turn in turns[start : start + 64]], timeout_s=120
        )
    ]
    told = {
        "theme": name,
        "limit": max(KS),
        "turns": [
            {
                "session": turn.session,
                "role": "user" if place % 2 == 0 else "assistant",
                "text": turn.text,
                "vector": vector,
            }
            for place, (turn, vector) in enumerate(zip(turns, vectors, strict=True))
        ],
        "questions": [
            {"text": text, "vector": model.embed_query(text, timeout_s=60)}
            for text in questions
        ],
    }
    file = scene.folder / f"{name}.json"
    file.write_text(json.dumps(told))
    python = os.environ["REFERENCE_PYTHON"]
    return drive(python, "_drive_locomo.py", reference_dsn(scene), file)["found"]


@cache
def reference_dsn(scene: Stage) -> str:
    """Make the reference's database once, with vectors as long as the model's."""
    dsn = scene.reference("reference", os.environ["REFERENCE_PYTHON"])
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            f"ALTER TABLE conversations ALTER embedding TYPE vector({DIMENSION})"
        )
    return dsn


def evidence(question: dict[str, Any], places: dict[str, int]) -> set[int]:
    """Return the places of the turns that answer *question*."""
    named = re.findall(r"D\d+:\d+", " ".join(map(str, question.get("evidence", []))))
    return {places[id_] for id_ in named if id_ in places}


class Tally:
    """Shares of evidence found, by what they are counted under and by k."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self._shares: dict[tuple[str, int], list[float]] = defaultdict(list)

    def count(
        self, labels: tuple[str, ...], wanted: set[int], found: list[int]
    ) -> None:
        """Count one question's answer."""
        for k in KS:
            share = len(wanted.intersection(found[:k])) / len(wanted)
            for label in labels:
                self._shares[label, k].append(share)

    def percent(self, label: str) -> dict[str, float]:
        """Return the mean shares at each k, in percent; empty for nothing counted."""
        return {
            str(k): round(100 * fmean(self._shares[label, k]), 1)
            for k in KS
            if (label, k) in self._shares
        }

    def questions(self) -> int:
        """Return how many questions were counted."""
        return len(self._shares["all", KS[0]])


def measure(
    scene: Stage, home: Path, file: Path, model: Embedder, ours: Tally, reference: Tally
) -> None:
    """Let both hear one conversation and answer its questions."""
    data = json.loads(file.read_text())
    turns = turns_of(data["conversation"])
    # Words said twice are one place: nobody can tell which of them was found.
    by_text = {turn.text: place for place, turn in reversed(list(enumerate(turns)))}
    by_id = {turn.id: by_text[turn.text] for turn in turns}
    asked = [q for q in data["qa"] if evidence(q, by_id)]
    provider = PgvectorProvider()
    provider.initialize("measure", hermes_home=str(home), gateway_session_key=file.stem)
    started = time.monotonic()
    tell(provider, turns)
    say(f"{file.stem}: {len(turns)} turns in {time.monotonic() - started:.0f} s")
    found: list[list[int]] = []
    without: list[dict[str, list[int]]] = []
    for question in track(asked, description=file.stem, console=CONSOLE):
        found.append(ask(provider, question["question"], by_text))
        without.append(ask_without(provider, question["question"], by_text, model))
    provider.shutdown()
    texts = [question["question"] for question in asked]
    theirs = ask_reference(scene, file.stem, turns, texts, model)
    for question, mine, less, their in zip(asked, found, without, theirs, strict=True):
        group = "tuned on" if file.stem in TUNED_ON else "unseen"
        labels = ("all", group, CATEGORIES[question["category"]], file.stem)
        ours.count(labels, evidence(question, by_id), mine)
        for ingredient, poorer in less.items():
            ours.count((f"without {ingredient}",), evidence(question, by_id), poorer)
        places = [by_text[turns[place].text] for place in their]
        reference.count(labels, evidence(question, by_id), places)
    say(f"  ours      {ours.percent(file.stem)}")
    say(f"  reference {reference.percent(file.stem)}")


def main() -> None:
    """Measure, then print one line of JSON."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("../shared/data/locomo")
    names = sys.argv[2:] or sorted(path.stem for path in folder.glob("conv-*.json"))
    stored = named_model(LOCAL_MODEL, DIMENSION, Settings())
    ours, reference = Tally(), Tally()
    with stage() as scene, closing(make_embedder(Settings())) as model:
        settings = {"dsn": scene.ours("locomo", stored), "turn_min_chars": 0}
        home = scene.home("locomo", settings)
        for name in names:
            measure(scene, home, folder / f"{name}.json", model, ours, reference)
        engines.close_all()
    report = {
        "questions": ours.questions(),
        "conversations": {name: ours.percent(name) for name in names},
        "recall": ours.percent("all"),
        "reference": reference.percent("all"),
        "unseen": ours.percent("unseen"),
        "reference_unseen": reference.percent("unseen"),
        "by_category": {
            category: ours.percent(category)
            for category in CATEGORIES.values()
            if ours.percent(category)
        },
        "without": {
            ingredient: ours.percent(f"without {ingredient}")
            for ingredient in ("words", "meaning", "context")
        },
        "embedder": LOCAL_MODEL,
    }
    results = HERE.parent.parent / "bench-results"
    results.mkdir(exist_ok=True)
    (results / "locomo.json").write_text(json.dumps(report))
    print(json.dumps(report))


main()
