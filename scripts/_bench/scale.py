"""How well and how fast large themes are searched: scripts/bench scale [OPTIONS].

Fills a database with rows of 100 themes of Zipf sizes, runs `hermes-pgvector index`
when 95 % are there, adds the rest, and asks each chosen theme, and all themes, for the
ten rows nearest to a question. `recall_at_10` is against an exact search of the same
rows, `short` counts answers of fewer rows, `raw_p50_ms` is the best SQL written by
hand on one open connection. `words` are questions of words beside the vector. The
reference searches the same rows on the same server.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, redirect_stdout
from pathlib import Path
from statistics import median
from typing import Any, LiteralString

import psycopg
from _scale_data import CHOSEN, Data, fill_ours, fill_reference, stage_rows
from _stage import HERE, Stage, drive, say, stage
from pgvector import HalfVector
from rich.console import Console
from rich.progress import Progress, track

from hermes_pgmemory import cli
from hermes_pgmemory.models import EmbeddingModel, Scope, Theme
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.vectors import adapters

LIMIT, POOL, EF_SEARCH = 10, 50, 200
SEALED_SHARE = 0.95
ENOUGH = 0.99
"""Recall from which on SQL by hand counts as an answer."""
CONSOLE = Console(stderr=True)
COLUMNS: LiteralString = (
    "id, agent_identity, target, content, created_at, updated_at,"
    " 1 - distance AS similarity"
)
MINE: LiteralString = (
    "(%(theme)s::text IS NULL OR agent_identity = %(theme)s)"
    " AND subject IS NULL AND retired_at IS NULL AND model_id = 1"
)
EXACT: LiteralString = f"""
SELECT {COLUMNS}
  FROM (SELECT *, embedding <=> %(vector)b::halfvec AS distance
          FROM memory_entries
         WHERE {MINE}
         ORDER BY distance, id LIMIT %(pool)s) AS pool
 ORDER BY distance, id LIMIT 10
"""
SEALED: LiteralString = f"""
WITH sealed AS MATERIALIZED (
    SELECT *, embedding <=> %(vector)b::halfvec AS distance
      FROM memory_entries
     WHERE {MINE} AND id <= %(watermark)s
     ORDER BY embedding <=> %(vector)b::halfvec LIMIT %(pool)s
), tail AS MATERIALIZED (
    SELECT *, embedding <=> %(vector)b::halfvec AS distance
      FROM memory_entries
     WHERE {MINE} AND id > %(watermark)s
     ORDER BY distance LIMIT %(pool)s
)
SELECT {COLUMNS} FROM (SELECT * FROM sealed UNION ALL SELECT * FROM tail) AS pool
 ORDER BY distance, id LIMIT 10
"""


def main() -> None:
    """Measure both and print the figures."""
    args = _arguments()
    data = Data(rows=args.rows, dim=args.dim, questions=args.questions)
    with stage() as scene:
        say(f"{args.rows} rows of {args.dim} dimensions")
        asked = data.asked()
        dsn, watermark = prepare_ours(scene, data, args.min_rows)
        with closing(Store(dsn)) as store, connect(dsn) as conn:
            ours = [
                ask_ours(store, conn, data, rank, asked[rank], watermark)
                for rank in track((*CHOSEN, None), "ours", console=CONSOLE)
            ]
        reference = [] if args.no_reference else ask_reference(scene, data, asked)
    report = {
        "rows": args.rows,
        "dim": args.dim,
        "themes": ours[:-1],
        "all": ours[-1],
        "reference": reference,
    }
    tell(report)
    print(json.dumps(report))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--min-rows", type=int, default=10_000, help="as of `index`")
    parser.add_argument("--no-reference", action="store_true")
    return parser.parse_args()


def connect(dsn: str) -> psycopg.Connection[Any]:
    """Open a connection as a script by hand would."""
    return psycopg.connect(
        dsn, autocommit=True, prepare_threshold=None, context=adapters()
    )


def prepare_ours(scene: Stage, data: Data, min_rows: int) -> tuple[str, int]:
    """Make our database; return its DSN and the last id that was sealed."""
    dsn = scene.ours("ours", EmbeddingModel(name="bench", dimension=data.dim))
    with Progress(console=CONSOLE) as progress:
        task = progress.add_task("rows", total=data.rows)
        stage_rows(dsn, data, lambda rows: progress.advance(task, rows))
    first = int(data.rows * SEALED_SHARE)
    with CONSOLE.status("storing rows"):
        fill_ours(dsn, 0, first)
    home = scene.home("ours", {"dsn": dsn})
    began = time.monotonic()
    with redirect_stdout(sys.stderr):
        status = cli.main(["index", "--min-rows", f"{min_rows}", "--home", str(home)])
    if status:
        sys.exit(status)
    say(f"index took {time.monotonic() - began:.0f} s")
    with connect(dsn) as conn:
        watermark = conn.execute("SELECT max(id) FROM memory_entries").fetchall()[0][0]
    with CONSOLE.status("storing the tail"):
        fill_ours(dsn, first, data.rows)
    with connect(dsn) as conn:
        conn.execute("DROP TABLE staged")
    return dsn, watermark


def ask_ours(
    store: Store,
    conn: psycopg.Connection[Any],
    data: Data,
    rank: int | None,
    vectors: Sequence[Any],
    watermark: int,
) -> dict[str, Any]:
    """Ask one theme everything, in turns with the SQL written by hand."""
    theme = rank and f"theme-{rank}"
    scope = Scope(theme=theme and Theme(theme), subject=None)
    conn.execute("SET hnsw.iterative_scan = relaxed_order")
    conn.execute(f"SET hnsw.ef_search = {EF_SEARCH}")
    texts = _words(data, len(vectors))
    times: dict[str, list[float]] = {"ours": [], "words": [], "exact": [], "sealed": []}
    truth: list[list[int]] = []
    answers: list[list[int]] = []
    by_hand: list[list[int]] = []
    # The first question warms everything up and does not count.
    for vector, text in zip([vectors[0], *vectors], [texts[0], *texts], strict=True):
        values = vector.tolist()
        parameters = {
            "vector": HalfVector(values),
            "theme": theme,
            "watermark": watermark,
            "pool": POOL,
        }

        def search(text: str, values: list[float] = values) -> list[Any]:
            return store.search_entries(
                text=text,
                vector=values,
                scope=scope,
                target=None,
                limit=LIMIT,
                timeout_s=60,
            )

        truth.append(
            [row[0] for row in _timed(times["exact"], conn, EXACT, parameters)]
        )
        by_hand.append(
            [row[0] for row in _timed(times["sealed"], conn, SEALED, parameters)]
        )
        began = time.perf_counter()
        hits = search("")
        times["ours"].append((time.perf_counter() - began) * 1000)
        answers.append([hit.id for hit in hits])
        began = time.perf_counter()
        search(text)
        times["words"].append((time.perf_counter() - began) * 1000)
    counted = {name: measured[1:] for name, measured in times.items()}
    raw = median(counted["exact"])
    # An index that finds less is no better way to the same rows.
    if _judged(by_hand[1:], truth[1:], counted["sealed"])["recall_at_10"] >= ENOUGH:
        raw = min(raw, median(counted["sealed"]))
    return {
        "rows": data.rows if rank is None else data.sizes[rank - 1],
        **_judged(answers[1:], truth[1:], counted["ours"]),
        "raw_p50_ms": round(
            min(median(counted["exact"]), median(counted["sealed"])), 2
        ),
        "words_p50_ms": round(median(counted["words"]), 2),
        "words_p95_ms": _p95(counted["words"]),
    }


def _words(data: Data, count: int) -> list[str]:
    """Return questions of eight words, common ones and rare ones, from rows."""
    texts = data.texts()
    return [" ".join(next(texts).split()[1:9]) for _ in range(count)]


def _timed(
    times: list[float],
    conn: psycopg.Connection[Any],
    statement: LiteralString,
    parameters: dict[str, Any],
) -> list[Any]:
    began = time.perf_counter()
    rows = conn.execute(statement, parameters).fetchall()
    times.append((time.perf_counter() - began) * 1000)
    return rows


def _judged(
    answers: Sequence[Sequence[int]],
    truth: Sequence[Sequence[int]],
    times: Sequence[float],
) -> dict[str, Any]:
    shares = [
        len(set(answer) & set(true)) / len(true)
        for answer, true in zip(answers, truth, strict=True)
    ]
    return {
        "recall_at_10": round(sum(shares) / len(shares), 4),
        "short": sum(
            len(answer) < len(true) for answer, true in zip(answers, truth, strict=True)
        ),
        "p50_ms": round(median(times), 2),
        "p95_ms": _p95(times),
    }


def _p95(times: Sequence[float]) -> float:
    return round(sorted(times)[math.ceil(len(times) * 0.95) - 1], 2)


def ask_reference(
    scene: Stage, data: Data, asked: dict[int | None, Any]
) -> list[dict[str, Any]]:
    """Fill the reference's database with the same rows and ask it the same."""
    python = os.environ["REFERENCE_PYTHON"]
    dsn = scene.reference("reference", python)
    with Progress(console=CONSOLE) as progress:
        task = progress.add_task("reference's rows", total=data.rows)
        stage_rows(dsn, data, lambda rows: progress.advance(task, rows))
    with CONSOLE.status("building the reference's index"):
        fill_reference(dsn, data.dim)
    path = scene.folder / "questions.json"
    name = {rank: "" if rank is None else f"theme-{rank}" for rank in asked}
    path.write_text(
        json.dumps({name[rank]: [v.tolist() for v in asked[rank]] for rank in asked})
    )
    found = drive(python, "_drive_scale.py", dsn, path)
    results: list[dict[str, Any]] = []
    with connect(dsn) as conn:
        conn.execute("SET enable_indexscan = off")
        for rank in track((*CHOSEN, None), "the truth", console=CONSOLE):
            truth = [_exact_of_reference(conn, name[rank], v) for v in asked[rank]]
            answers = found[name[rank]]
            results.append(
                {
                    "rows": data.rows if rank is None else data.sizes[rank - 1],
                    **_judged(
                        [answer["ids"] for answer in answers],
                        truth,
                        [answer["ms"] for answer in answers],
                    ),
                }
            )
    return results


def _exact_of_reference(
    conn: psycopg.Connection[Any], theme: str, vector: Any
) -> list[int]:
    rows = conn.execute(
        "SELECT id FROM memory_entries"
        " WHERE (%(theme)s = '' OR agent_identity = %(theme)s)"
        " ORDER BY embedding <=> %(vector)s::vector LIMIT 10",
        {"theme": theme, "vector": json.dumps(vector.tolist())},
    )
    return [id_ for (id_,) in rows]


def tell(report: dict[str, Any]) -> None:
    """Print the figures as a table; keep them, and a picture, in bench-results."""
    head = "rows recall_at_10 short p50_ms p95_ms raw_p50_ms words_p50_ms words_p95_ms"
    lines = ["".join(f"{word:>14}" for word in ("", *head.split()))]
    ours = [*report["themes"], report["all"]]
    for who, figures in (("ours", ours), ("reference", report["reference"])):
        for one in figures:
            cells = [f"{one.get(word, '-')}" for word in head.split()]
            lines.append("".join(f"{cell:>14}" for cell in (who, *cells)))
    text = "\n".join(lines)
    say(text)
    results = HERE.parent.parent / "bench-results"
    results.mkdir(exist_ok=True)
    base = results / f"scale-{report['rows']}-{report['dim']}"
    base.with_suffix(".txt").write_text(f"{text}\n")
    base.with_suffix(".json").write_text(json.dumps(report))
    draw(base)


def draw(base: Path) -> None:
    """Draw a PNG, in a process with matplotlib; fetch that first where it lacks."""
    lent = base.parent / "plotting"
    env = os.environ | {"PYTHONPATH": str(lent)}
    plot = [sys.executable, str(HERE / "_plot_scale.py"), str(base)]
    fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(lent)]
    try:
        if not lent.is_dir():
            subprocess.run([*fetch, "matplotlib"], check=True, stdout=sys.stderr)
        subprocess.run(plot, env=env, check=True, stdout=sys.stderr)
    except subprocess.CalledProcessError as exc:
        say(f"no picture: {exc}")
    else:
        say(f"figures: {base}.txt, {base}.png")


if __name__ == "__main__":
    main()
