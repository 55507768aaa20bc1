"""How fast pages of the dashboard are: scripts/bench dashboard [TURNS].

TURNS turns (200,000) in two themes, a tenth as many memories; vectors of 384 numbers.
Each page is asked for three times of a server of its own: `first_ms` is with a
connection that is new, and nothing counted yet.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psycopg
from _stage import SOME_VECTORS, say, stage

from hermes_pgmemory.config import Settings
from hermes_pgmemory.dashboard import Serving, Sources
from hermes_pgmemory.models import EmbeddingModel
from hermes_pgmemory.paths import HomePaths

TURNS: Final = """
INSERT INTO conversations (agent_identity, session_id, role, content, ts, turn_key,
                           embedding, model_id, tsv)
SELECT CASE WHEN n %% 11 = 0 THEN 'small' ELSE 'large' END, 's' || n / 40,
       CASE WHEN n %% 2 = 0 THEN 'user' ELSE 'assistant' END, said,
       now() - n * interval '13 seconds', sha256(n::text::bytea), vector, 1,
       to_tsvector('english', said)
  FROM generate_series(1, %(turns)s) AS n
 CROSS JOIN LATERAL (
    SELECT format('turn %%s of word%%s and word%%s, about %%s', n, n %% 997, n %% 89,
                  repeat('this and that ', n %% 20)) AS said) AS x
  JOIN some_vectors ON m = n %% 2000
"""
ENTRIES: Final = """
INSERT INTO memory_entries (agent_identity, target, content, content_hash, embedding,
                            model_id, updated_at, tsv)
SELECT 'large', 'memory', said, sha256(said::bytea), vector, 1,
       now() - n * interval '2 minutes', to_tsvector('english', said)
  FROM generate_series(1, %(turns)s / 10) AS n
 CROSS JOIN LATERAL (
    SELECT format('memory %%s of word%%s', n, n %% 997) AS said) AS x
  JOIN some_vectors ON m = n %% 2000
"""
PAGES: Final = {
    "overview": "/",
    "memories": "/theme?name=large",
    "conversations": "/sessions?theme=large",
    "conversation": "/session?theme=large&id=s100",
    "delegations": "/delegations",
    "journal": "/journal",
    "search by words": "/search?q=word42&theme=large",
}


class Browser:
    """Asks one server, over a new connection each time."""

    def __init__(self, serving: Serving) -> None:
        """Show the token."""
        self._port = serving.port
        self._cookie = ""
        entrance = serving.url.partition(f":{serving.port}")[2]
        self._cookie = self._ask(entrance).getheader("Set-Cookie", "").split(";")[0]

    def ms(self, path: str) -> float:
        """Return how long a page takes, in milliseconds."""
        started = time.perf_counter()
        answer = self._ask(path)
        if answer.status != http.HTTPStatus.OK:
            raise SystemExit(f"{path}: {answer.status}")
        return (time.perf_counter() - started) * 1000

    def _ask(self, path: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("GET", path, headers={"Cookie": self._cookie})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer


def measured(dsn: str, home: Path) -> dict[str, dict[str, float]]:
    """Ask for every page, each with a server of its own."""
    figures: dict[str, dict[str, float]] = {}
    # Nobody answers there: the question goes without a vector.
    settings = Settings(embed_url="http://127.0.0.1:9/v1", embed_model="bench")
    for name, path in PAGES.items():
        sources = Sources(HomePaths(home), settings, dsn, show_private=False)
        with closing(sources), closing(Serving(sources, port=0)) as serving:
            browser = Browser(serving)
            first, *later = [browser.ms(path) for _ in range(3)]
            figures[name] = {"first_ms": round(first), "then_ms": round(min(later))}
            if name == "overview":
                counted = sources.counted
                started = time.perf_counter()
                while counted.latest(patience_s=60).value is None:
                    time.sleep(0.1)
                figures[name]["counted_s"] = round(time.perf_counter() - started, 1)
        say(f"{name}: {figures[name]}")
    return figures


def main() -> None:
    """Fill a database, ask, and print the figures."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with stage() as place, TemporaryDirectory() as home:
        dsn = place.ours("dashboard", EmbeddingModel(name="bench", dimension=384))
        say(f"storing {turns} turns ...")
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(SOME_VECTORS)
            conn.execute(TURNS, {"turns": turns})
            conn.execute(ENTRIES, {"turns": turns})
            conn.execute("VACUUM ANALYZE")
        figures = measured(dsn, Path(home))
    sys.stdout.write(json.dumps({"turns": turns, "pages": figures}) + "\n")


if __name__ == "__main__":
    main()
