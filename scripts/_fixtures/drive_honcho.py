"""Run a real Honcho server from its source: by its environment's Python.

Told where the source is. Prints one JSON object with what its API answered, asked by
plain HTTP.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

WORKSPACE = "Desk"
DM = "agent-main-telegram-dm-5550100124"
GROUP = "agent-main-telegram-group--5550100125"
SAID = {
    "my-project": [
        ("alice", "What does Halden owe?", "2025-01-01T00:00:01Z"),
        ("hermes", "It is 300 euros.", "2025-01-01T00:00:01.500Z"),
        ("alice", "What does Halden owe?", "2025-01-01T01:00:02+01:00"),
        ("hermes", "Still 300 — schön! 🐶", None),
    ],
    DM: [
        ("5550100124", "I like green tea, and I said so.", "2025-01-02T00:00:00Z"),
        ("hermes", "Green tea it is.", "2025-01-02T00:00:01Z"),
    ],
    GROUP: [
        ("5550100126", "The choir meets on Mondays.", "2025-01-03T00:00:00Z"),
        ("5550100127", "Not on holidays, I hope.", "2025-01-03T00:00:01Z"),
        ("hermes", "It does not, on holidays.", "2025-01-03T00:00:02Z"),
    ],
}
BATCH = "at-once"
SAID[BATCH] = [
    ("alice", "This was said long before.", "2025-01-04T00:00:00Z"),
    ("alice", "Which of these came first?", None),
    ("hermes", "This came second, at the same moment.", None),
    ("alice", "This came third and last.", None),
]
CONCLUSIONS = [
    ("hermes", "alice", "Alice asks twice.", "my-project"),
    ("hermes", "alice", "Alice is patient.", None),
    ("hermes", "hermes", "Answers in euros.", None),
    ("5550100124", "5550100124", "Likes green tea.", DM),
    ("hermes", "5550100124", "Writes in the evening.", None),
]


def serve() -> None:
    """Be the server."""
    import uvicorn
    from tokens import stand_in

    stand_in()
    sys.path.insert(0, str(Path.cwd()))
    if sys.argv[1] == "migrate":
        import asyncio

        from src.db import init_db

        asyncio.run(init_db())
    else:
        uvicorn.run("src.main:app", host="127.0.0.1", port=int(sys.argv[1]))


def environment() -> dict:
    """Return the server's settings: nothing sent anywhere but to the fake endpoint."""
    where = quote(os.environ["PG_FOLDER"], safe="")
    database = os.environ["PG_DATABASE"]
    return {
        **os.environ,
        "DB_CONNECTION_URI": f"postgresql+psycopg://postgres@/{database}?host={where}",
        "AUTH_USE_AUTH": "false",
        "LLM_OPENAI_API_KEY": "none",
        "EMBEDDING_MODEL_CONFIG__OVERRIDES__BASE_URL": os.environ["OPENAI_BASE_URL"],
        "CACHE_ENABLED": "false",
        "SENTRY_ENABLED": "false",
        "TELEMETRY_ENABLED": "false",
        "PYTHON_DOTENV_DISABLED": "1",
    }


def workspace(client) -> dict:
    """Have it keep what was said; return what it tells of that."""
    base = f"/v3/workspaces/{WORKSPACE}"
    client.post("/v3/workspaces", json={"id": WORKSPACE}).raise_for_status()
    for session, said in SAID.items():
        for peer in {peer for peer, *_ in said}:
            client.post(f"{base}/peers", json={"id": peer}).raise_for_status()
        client.post(f"{base}/sessions", json={"id": session}).raise_for_status()
        messages = [
            {
                "peer_id": peer,
                "content": content,
                **({"created_at": at} if at else {"metadata": {"n": [1, None]}}),
            }
            for peer, content, at in said
        ]
        path = f"{base}/sessions/{session}/messages"
        client.post(path, json={"messages": messages}).raise_for_status()
    told = [
        dict(
            zip(
                ("observer_id", "observed_id", "content", "session_id"),
                one,
                strict=True,
            )
        )
        for one in CONCLUSIONS
    ]
    client.post(f"{base}/conclusions", json={"conclusions": told}).raise_for_status()
    lists = {
        session: client.post(f"{base}/sessions/{session}/messages/list", json={})
        for session in SAID
    }
    return {
        "messages": [one.json() for one in lists.values()],
        "reverse": client.post(
            f"{base}/sessions/{BATCH}/messages/list",
            params={"reverse": True},
            json={},
        ).json(),
        "conclusions": client.post(f"{base}/conclusions/list", json={}).json(),
        "context": client.get(f"{base}/sessions/my-project/context").json(),
    }


def main() -> None:
    from serving import free_port, serving

    source, port, env = sys.argv[2], free_port(), environment()
    own = [sys.executable, __file__]
    subprocess.run(
        [*own, "migrate"], env=env, cwd=source, check=True, stdout=sys.stderr
    )
    log = Path(os.environ["SCRATCH"]) / "server.log"
    with serving([*own, str(port)], port, env=env, log=log, cwd=source) as client:
        print(json.dumps(workspace(client)))


main() if sys.argv[1] == "drive" else serve()
