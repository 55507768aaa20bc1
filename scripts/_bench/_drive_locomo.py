"""Let the reference store one conversation and answer: DSN FILE.

FILE holds the turns and the questions with their vectors; prints, for each question,
the places of the turns found. Runs with the reference's Python.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hermes_pgvector.store import MemoryStore

DSN, FILE = sys.argv[1:3]


def main() -> None:
    """Store, ask, print."""
    told = json.loads(Path(FILE).read_text())
    store = MemoryStore(DSN)
    places = {
        store.append_turn(
            session_id=turn["session"],
            agent_identity=told["theme"],
            role=turn["role"],
            content=turn["text"],
            embedding=turn["vector"],
        ): place
        for place, turn in enumerate(told["turns"])
    }
    found = [
        [
            places[hit["id"]]
            for hit in store.hybrid_search_turns(
                query_text=question["text"],
                query_embedding=question["vector"],
                agent_identity=told["theme"],
                limit=told["limit"],
            )
        ]
        for question in told["questions"]
    ]
    store.close()
    print(json.dumps({"found": found}))


main()
