"""What the bench of scale searches: many rows, themes of Zipf sizes, clustered vectors.

The same seed makes the same rows, so that both databases hold the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

THEMES = 100
CHOSEN = (1, 2, 4, 11, 30, 98)
"""Ranks of the themes that are asked, from the largest to a small one."""
CLUSTERS = 500
SPREAD = 1.0
"""Of the vectors of a cluster, against the spread of the clusters' centres."""
NOISE = 0.35
"""Of a question, against the row it is about."""
WORDS, VOCABULARY = 25, 20_000
PART = 5_000


@dataclass
class Data:
    """Rows that are made again whenever they are needed."""

    rows: int
    dim: int
    questions: int
    sizes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Decide how many rows each theme has."""
        weights = 1 / np.arange(1, THEMES + 1)
        sizes = np.maximum(1, weights / weights.sum() * self.rows).astype(int)
        sizes[0] += self.rows - sizes.sum()
        self.sizes = [int(size) for size in sizes]

    def theme_of(self) -> NDArray[np.int64]:
        """Return each row's theme, by rank; themes come mixed, as agents write."""
        owners = np.repeat(np.arange(1, THEMES + 1), self.sizes)
        np.random.default_rng(1).shuffle(owners)
        return owners

    def vectors(self) -> Iterator[NDArray[np.float32]]:
        """Yield all vectors, of length 1, in parts."""
        random = np.random.default_rng(2)
        centres = random.standard_normal((CLUSTERS, self.dim), dtype=np.float32)
        for start in range(0, self.rows, PART):
            count = min(PART, self.rows - start)
            noise = random.standard_normal((count, self.dim), dtype=np.float32)
            part = centres[random.integers(CLUSTERS, size=count)] + SPREAD * noise
            yield part / np.linalg.norm(part, axis=1, keepdims=True)

    def texts(self) -> Iterator[str]:
        """Yield all texts, of words that are as unevenly common as in a language."""
        random = np.random.default_rng(3)
        weights = 1 / np.arange(1, VOCABULARY + 1)
        chances = weights / weights.sum()
        for start in range(0, self.rows, PART):
            count = min(PART, self.rows - start)
            drawn = random.choice(VOCABULARY, size=(count, WORDS), p=chances)
            for number, words in enumerate(drawn, start):
                yield f"n{number} " + " ".join(f"w{word}x" for word in words)

    def asked(self) -> dict[int | None, list[NDArray[np.float32]]]:
        """Return the questions of each chosen theme, and of all: near to its rows."""
        owners = self.theme_of()
        random = np.random.default_rng(4)
        chosen: dict[int, list[int | None]] = {}
        for rank in (*CHOSEN, None):
            own = np.flatnonzero(owners == rank) if rank else np.arange(self.rows)
            for row in random.choice(own, size=self.questions):
                chosen.setdefault(int(row), []).append(rank)
        found: dict[int | None, list[NDArray[np.float32]]] = {
            rank: [] for rank in (*CHOSEN, None)
        }
        row = 0
        for part in self.vectors():
            for vector in part:
                for rank in chosen.get(row, ()):
                    noise = random.standard_normal(self.dim, dtype=np.float32)
                    found[rank].append(vector + NOISE * noise / np.sqrt(self.dim))
                row += 1
        return found


def stage_rows(dsn: str, data: Data, advance: Callable[[int], None]) -> None:
    """Copy all rows into the table `staged`: number, theme, content, embedding."""
    owners = data.theme_of()
    texts = data.texts()
    with psycopg.connect(dsn) as conn:
        conn.execute(
            sql.SQL(
                "CREATE UNLOGGED TABLE staged"
                " (n int, theme text, content text, embedding vector({}))"
            ).format(sql.Literal(data.dim))
        )
        head = data.dim.to_bytes(2, "big") + b"\0\0"
        copy_in = "COPY staged FROM STDIN (FORMAT BINARY)"
        with conn.cursor() as cursor, cursor.copy(copy_in) as copy:
            number = 0
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
            for part in data.vectors():
                bodies = part.astype(">f4")
                for body in bodies:
                    fields = (
                        number.to_bytes(4, "big"),
                        f"theme-{owners[number]}".encode(),
                        next(texts).encode(),
                        head + body.tobytes(),
                    )
                    line = b"".join(len(x).to_bytes(4, "big") + x for x in fields)
                    copy.write(b"\0\4" + line)
                    number += 1
                advance(len(part))
            copy.write(b"\xff\xff")


OURS = """
INSERT INTO memory_entries
       (agent_identity, target, content, content_hash, embedding, model_id, tsv)
SELECT theme, 'memory', content, sha256(content::bytea), embedding, 1,
       to_tsvector('english', content)
  FROM staged
 WHERE n >= %s AND n < %s
 ORDER BY n
"""
REFERENCE = """
INSERT INTO memory_entries (agent_identity, target, content, embedding)
SELECT theme, 'memory', content, embedding FROM staged ORDER BY n
"""


def fill_ours(dsn: str, first: int, end: int) -> None:
    """Move staged rows into our table, as so many agents would have written them."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(OURS, (first, end))
        conn.execute("VACUUM ANALYZE memory_entries")


def fill_reference(dsn: str, dim: int) -> None:
    """Fill the reference's table, then build its index as its migration would."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("DROP INDEX ix_memory_entries_embedding_hnsw")
        conn.execute(
            sql.SQL(
                "ALTER TABLE memory_entries ALTER embedding TYPE vector({})"
            ).format(sql.Literal(dim))
        )
        conn.execute(REFERENCE)
        conn.execute("DROP TABLE staged")
        conn.execute("SET maintenance_work_mem = '1GB'")
        conn.execute(
            "CREATE INDEX ix_memory_entries_embedding_hnsw ON memory_entries"
            " USING hnsw (embedding vector_cosine_ops)"
            " WITH (m = 16, ef_construction = 64)"
        )
        conn.execute("VACUUM ANALYZE memory_entries")
