"""Run the real mem0ai: run by its environment's Python, knows nothing of ours.

Prints one JSON object with what mem0 answered; told which store it is to keep its
memories in.
"""

import inspect
import json
import os
import sys
from importlib.metadata import version
from urllib.parse import quote

import posthog


class Mute:
    """Sends nothing home, whatever the version of mem0 thinks of its variables."""

    def __init__(self, *_: object, **__: object) -> None:
        """Take what the real one takes."""

    def __getattr__(self, _: str):
        """Return something to call in vain."""
        return lambda *_, **__: None


posthog.Posthog = Mute

from mem0 import Memory  # noqa: E402

VERSION = version("mem0ai")
NUMBERS = tuple(map(int, VERSION.split(".")[:2]))
OLD = "infer" not in inspect.signature(Memory.add).parameters
"""When every memory was a chat model's."""
COLLECTION = "mem0"
PHONE = "+15550100123"


def vector_store(kind: str) -> dict:
    common = {"collection_name": COLLECTION, "embedding_model_dims": 8}
    if kind == "qdrant":
        where = {"path": os.environ["SCRATCH"] + "/qdrant", "on_disk": True}
        return {"provider": kind, "config": {**common, **where}}
    where = {"dbname": os.environ["PG_DATABASE"], "user": "postgres", "password": "x"}
    host = os.environ["PG_FOLDER"]
    if not OLD:
        where["connection_string"] = (
            f"postgresql://postgres:x@/{where['dbname']}?host={quote(host, safe='')}"
        )
    return {"provider": kind, "config": {**common, **where, "host": host, "port": 5432}}


def memory(kind: str) -> Memory:
    model = {"model": "fake", "api_key": "none"}
    embedder = {**model, "embedding_dims": 8}
    return Memory.from_config(
        {
            "vector_store": vector_store(kind),
            "llm": {"provider": "openai", "config": model},
            "embedder": {"provider": "openai", "config": embedder},
            "history_db_path": f"{os.environ['SCRATCH']}/history-{kind}.db",
        }
    )


def add(mem: Memory, said: object, *, infer: bool = False, **whose: object) -> None:
    how = {} if OLD else {"infer": infer}
    mem.add(said, **how, **whose)


def fill(mem: Memory) -> dict:
    """Tell it what several people said to several agents; return what it recalls."""
    coder = {"user_id": "hermes-user", "agent_id": "Coder"}
    add(mem, "Works at TechCorp", metadata={"channel": "cli"}, **coder)
    nested = {
        "type": "professional",
        "tags": ["tools", "editors"],
        "source": {"line": 7, "score": 0.25, "checked": None, "sure": True},
    }
    add(mem, "Prefers vim over emacs", metadata=nested, run_id="run-1", **coder)
    add(mem, "Is moving to Lisbon", user_id="alice", agent_id="Coder", run_id="run-1")
    add(mem, "Calls at night", user_id=PHONE, agent_id="Coder")
    add(
        mem,
        "Likes green tea",
        user_id="5550100124",
        agent_id="hermes",
        metadata={"channel": "telegram"},
    )
    add(mem, "The build takes nine minutes", agent_id="builder")
    add(mem, "Only this run knows it", run_id="run-2")
    said = [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "My dog is called Bello", "name": "Ann"},
        {"role": "assistant", "content": "Bello is a fine name — schön! 🐶"},
    ]
    add(mem, said, user_id="alice", agent_id="hermes")
    if NUMBERS >= (2, 1):
        add(mem, "Is on holiday", user_id="alice", expiration_date="2020-01-31")
        add(mem, "Has a pass", user_id="alice", expiration_date="2999-01-31")
    add(
        mem, said[1:2], infer=True, user_id="alice", agent_id="Coder", metadata={"n": 1}
    )
    return change(mem)


def everything(mem: Memory, **whose: str) -> object:
    if NUMBERS >= (2, 0):
        return mem.get_all(filters=whose, top_k=1000)
    return mem.get_all(**whose, limit=1000)


def listed(got: object) -> list:
    return got.get("results", got.get("memories")) if isinstance(got, dict) else got


def change(mem: Memory) -> dict:
    """Correct one memory, forget another; return every answer that tells of them."""
    add(mem, "Lives in Vienna", user_id="alice")
    add(mem, "To be forgotten", user_id="alice")
    found = {
        one["memory"]: one["id"] for one in listed(everything(mem, user_id="alice"))
    }
    mem.update(found["Lives in Vienna"], "Lives in Graz")
    mem.delete(found["To be forgotten"])
    whose = (
        {"user_id": "hermes-user"},
        {"user_id": "alice"},
        {"user_id": PHONE},
        {"user_id": "5550100124"},
        {"agent_id": "builder"},
        {"run_id": "run-2"},
    )
    answers = {"get_all": [everything(mem, **one) for one in whose]}
    answers["history"] = mem.history(found["Lives in Vienna"])
    answers["get"] = mem.get(found["Lives in Vienna"])
    return answers


print(json.dumps(fill(memory(sys.argv[1]))))
