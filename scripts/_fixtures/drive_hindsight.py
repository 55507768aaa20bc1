"""Run a real Hindsight server: by its environment's Python, knowing nothing of ours.

Prints one JSON object with what its API answered; archives in base64.
"""

import base64
import json
import os
import sys
from pathlib import Path

import httpx
from serving import free_port, serving, until

BANK = "hermes-Coder"


def environment(port: int) -> dict:
    """Return the server's settings: no model of a hub, nothing sent anywhere."""
    url, prefix = os.environ["OPENAI_BASE_URL"], "HINDSIGHT_API_"
    settings = {
        "DATABASE_URL": f"postgresql://postgres@/{os.environ['PG_DATABASE']}",
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "LLM_PROVIDER": "openai",
        "LLM_API_KEY": "none",
        "LLM_BASE_URL": url,
        "LLM_MODEL": "fake",
        "SKIP_LLM_VERIFICATION": "true",
        "EMBEDDINGS_PROVIDER": "openai",
        "EMBEDDINGS_OPENAI_API_KEY": "none",
        "EMBEDDINGS_OPENAI_BASE_URL": url,
        "EMBEDDINGS_OPENAI_MODEL": "fake",
        "RERANKER_PROVIDER": "rrf",
        "ENABLE_DOCUMENT_EXPORT_API": "true",
        "WORKER_ID": "fixtures",
        "WORKER_POLL_INTERVAL_MS": "200",
        "FILE_STORAGE_TYPE": "native",
    }
    here = {**os.environ, "PGHOST": os.environ["PG_FOLDER"]}
    return {**here, **{prefix + name: value for name, value in settings.items()}}


def chat(user: str, chat_type: str) -> dict:
    """Return what the host's plugin notes of a chat."""
    return {
        "platform": "telegram",
        "user_id": user,
        "chat_id": user,
        "chat_type": chat_type,
        "session_id": "20260101_030405_abcdef",
        "agent_identity": "default",
    }


ITEMS = [
    {
        "content": "Alice works at Halden since 2024.",
        "timestamp": "2025-01-15T10:30:00Z",
        "context": "work",
        "document_id": "session_1",
        "metadata": {"platform": "cli", "source": "hermes"},
        "tags": ["people", "session:s1"],
    },
    {
        "content": "The build takes nine minutes.",
        "timestamp": "2025-01-16T08:00:00+02:00",
        "document_id": "session_2",
    },
    {
        "content": "Water boils at 100 degrees.",
        "timestamp": "unset",
        "document_id": "timeless",
    },
    {
        "content": "Bob likes green tea.",
        "document_id": "dm/5550100124",
        "metadata": chat("5550100124", "dm"),
    },
    {
        "content": "The choir meets on Mondays.",
        "document_id": "group",
        "metadata": chat("5550100125", "group"),
    },
    {"content": "The office is in Vienna.", "document_id": "wrong"},
]


def bank(client: httpx.Client) -> dict:
    """Have it keep what is in `ITEMS`; return what it tells of that."""
    base = f"/v1/default/banks/{BANK}"
    client.put(base, json={"name": "Coder"}).raise_for_status()
    for item in ITEMS:
        told = client.post(f"{base}/memories", json={"items": [item], "async": False})
        told.raise_for_status()
    until(lambda: settled(client, base), "its operations")
    can = client.get("/openapi.json").json()["paths"]
    made = {}
    if "patch" in can["/v1/default/banks/{bank_id}/memories/{memory_id}"]:
        made["invalid"] = invalidated(client, base)
    made["list"] = client.get(f"{base}/memories/list", params={"limit": 100}).json()
    told = client.post(f"{base}/memories/recall", json={"query": "tea"})
    made["recall"] = told.json()
    part = {"document_id": ["session_1", "timeless"], "include_bank_config": False}
    for name, path, params in (
        ("bank", "transfer/export", {}),
        ("part", "transfer/export", part),
        ("old", "document-transfer/export", {"include_observations": True}),
    ):
        if "/v1/default/banks/{bank_id}/" + path in can:
            archive = exported(client, f"{base}/{path}", params, base)
            made[f"{name}.zip"] = base64.b64encode(archive).decode()
    return made


def invalidated(client: httpx.Client, base: str) -> dict:
    """Have a fact declared wrong; return the list of such."""
    found = client.get(f"{base}/memories/list", params={"q": "office"}).json()["items"]
    for one in found:
        if one["fact_type"] != "observation":
            body = {"state": "invalidated", "reason": "it moved"}
            client.patch(f"{base}/memories/{one['id']}", json=body).raise_for_status()
    until(lambda: settled(client, base), "its operations")
    asked = {"state": "invalidated"}
    return client.get(f"{base}/memories/list", params=asked).json()


def settled(client: httpx.Client, base: str) -> bool:
    told = client.get(f"{base}/operations", params={"limit": 100}).json()
    return all(
        one["status"] in ("completed", "failed", "cancelled")
        for one in told["operations"]
    )


def exported(client: httpx.Client, path: str, params: dict, base: str) -> bytes:
    told = client.post(path, params=params)
    told.raise_for_status()
    operation = f"{base}/operations/{told.json()['operation_id']}"

    def done():
        now = client.get(operation).json()
        if now["status"] == "failed":
            raise RuntimeError(json.dumps(now))
        return now["status"] == "completed" and now

    url = until(done, path)["result_metadata"]["download_url"]
    return client.get(url).raise_for_status().content


def main() -> None:
    port = free_port()
    command = [sys.executable, __file__, "serve"]
    log = Path(os.environ["SCRATCH"]) / "server.log"
    with serving(command, port, env=environment(port), log=log) as client:
        print(json.dumps(bank(client)))


def serve() -> None:
    """Be the server."""
    from tokens import stand_in

    stand_in()
    from hindsight_api.main import main as run

    sys.argv[1:] = []
    run()


serve() if sys.argv[1:] else main()
