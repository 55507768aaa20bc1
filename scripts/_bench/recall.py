"""Where the time of a recall goes: scripts/bench recall [QUESTIONS].

One agent asks themes of three sizes, with the local model; every question is a new one.
`prefetch` is what happens before a turn, `recall_conversation` a tool of the model's.
The phases are told as medians, in milliseconds: `embed`, `wait` for a connection, `sql`
(the server and the way to it), `fuse` (from rows to a ranking) and `format`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import psycopg
from _phases import PHASES, Phases
from _stage import SOME_VECTORS, percentiles, say, stage

from hermes_pgmemory import cli
from hermes_pgmemory.config import Settings
from hermes_pgmemory.embedding_models import LOCAL_MODEL
from hermes_pgmemory.provider import PgvectorProvider
from hermes_pgmemory.setup import named_model

SIZES: Final = (400, 4_000, 40_000)
DIMENSION: Final = 384
CALLS: Final = ("prefetch", "recall_conversation")
SAID: Final = """
  FROM generate_series(1, %(rows)s) AS n
  JOIN some_vectors ON m = n %% 2000
 CROSS JOIN LATERAL (
    SELECT format('Crate %%s went to hall %%s on day %%s, from gate %%s.',
                  n, n %% 97, n %% 365, n %% 23) AS said) AS told
"""
ENTRIES: Final = f"""
INSERT INTO memory_entries (agent_identity, target, content, content_hash, embedding,
                            model_id, tsv)
SELECT %(theme)s, 'memory', said, sha256(said::bytea), vector, 1,
       to_tsvector('english', said) {SAID}
"""
TURNS: Final = f"""
INSERT INTO conversations (agent_identity, session_id, role, content, ts, turn_key,
                           embedding, model_id, tsv)
SELECT %(theme)s, 's' || n / 40, CASE WHEN n %% 2 = 0 THEN 'user' ELSE 'assistant' END,
       said, now() - n * interval '13 seconds', sha256(n::text::bytea), vector, 1,
       to_tsvector('english', said) {SAID}
"""


def main() -> None:
    """Fill a database, ask, and print the figures."""
    questions = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with stage() as scene:
        dsn = scene.ours("recall", named_model(LOCAL_MODEL, DIMENSION, Settings()))
        home = scene.home("recall", {"dsn": dsn})
        fill(dsn)
        with redirect_stdout(sys.stderr):
            cli.main(["index", "--home", str(home)])
        report = [ask(home, rows, questions) for rows in SIZES]
    tell(report)
    print(json.dumps({"questions": questions, "sizes": report}))


def fill(dsn: str) -> None:
    """Store the rows of every theme, as so many agents would have."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(SOME_VECTORS)
        for rows in SIZES:
            say(f"storing {rows} memories and {rows} turns")
            for statement in (ENTRIES, TURNS):
                conn.execute(statement, {"theme": f"theme-{rows}", "rows": rows})
        conn.execute("VACUUM ANALYZE")


def ask(home: Path, rows: int, questions: int) -> dict[str, Any]:
    """Let one agent ask its theme of *rows* memories and as many turns."""
    provider = PgvectorProvider()
    provider.initialize(
        "bench",
        platform="api_server",
        hermes_home=str(home),
        agent_context="primary",
        gateway_session_key=f"theme-{rows}",
    )
    engine = provider._engine  # noqa: SLF001
    assert engine is not None
    phases = Phases()
    told: dict[str, list[dict[str, float]]] = {
        "prefetch": [],
        "recall_conversation": [],
    }
    with phases.running(engine.recall._embedder):  # noqa: SLF001
        for number in range(questions + 5):
            text = f"Which crates went to hall {number} on day {number * 7 % 365}?"
            calls: dict[str, Callable[[], str]] = {
                "prefetch": partial(provider.prefetch, text),
                "recall_conversation": partial(
                    provider.handle_tool_call,
                    "recall_conversation",
                    {"query": f"{text} Who said so?"},
                ),
            }
            for name, call in calls.items():
                told[name].append(phases.lap(call))
    provider.shutdown()
    # The first ones warm everything up.
    return {"rows": rows} | {name: summary(laps[5:]) for name, laps in told.items()}


def summary(laps: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of every phase, and the percentiles of all together."""
    found = {name: round(median(lap[name] for lap in laps), 2) for name in PHASES}
    return found | percentiles([sum(lap.values()) for lap in laps])


def tell(report: list[dict[str, Any]]) -> None:
    """Print the figures as a table."""
    head = (*PHASES, "p50", "p95")
    say("".join(f"{cell:>10}" for cell in ("rows", *head)))
    for theme in report:
        for name in CALLS:
            cells = (theme["rows"], *(theme[name][key] for key in head))
            say("".join(f"{cell:>10}" for cell in cells) + f"  {name}")


if __name__ == "__main__":
    main()
