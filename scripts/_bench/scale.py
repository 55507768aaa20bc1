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
import os
import subprocess
import sys
import time
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any

import psycopg
from _ask_scale import ask_ours, judged
from _scale_data import CHOSEN, Data, fill_ours, fill_reference, stage_rows
from _stage import HERE, Stage, drive, say, stage
from rich.console import Console
from rich.progress import Progress, track

from hermes_pgmemory import cli
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.vectors import adapters

SEALED_SHARE = 0.95
CONSOLE = Console(stderr=True)


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
    parser.add_argument("--min-rows", type=int, default=5_000, help="as of `index`")
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
                    **judged(
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
    """Draw a picture of the figures; without one they are still figures."""
    plot = [sys.executable, str(HERE / "plot.py"), f"{base}.json"]
    done = subprocess.run(plot, check=False, stdout=sys.stderr)
    if done.returncode:
        say(f"no picture; draw one later: scripts/bench plot {base}.json")


if __name__ == "__main__":
    main()
