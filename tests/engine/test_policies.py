"""Every setting of hermes-memory-pgvector has its name, its default and its effect."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_pgmemory import cli
from hermes_pgmemory.config import Settings
from hermes_pgmemory.settings_docs import field_docs, host_schema

QUESTION = "Which colours did we settle on for the spring campaign?"
REPLY = "We settled on teal and coral, as agreed with the print shop."
README = (Path(__file__).parents[2] / "README.md").read_text()

ORIGINAL: dict[str, Any] = {
    "prefetch_limit": 5,
    "min_similarity": 0.30,
    "embed_on_write": True,
    "scope_default": "current",
    "write_queue_maxsize": 256,
    "bulk_sync_on_init": True,
    "sync_turns": True,
    "turn_min_chars": 40,
    "allowed_themes": (),
    "identity_aliases": {},
    "bench_mode": "bucket",
    "conversation_embed_policy": "all",
    "ttl_days": 0,
    "embed_write_retries": 2,
    "embed_write_backoff": 0.1,
    "write_contexts": ("primary", "cron"),
    # Unset, we bring a server and a model of our own.
    "dsn": "",
    "embed_url": "",
    "embed_model": "",
}
"""Its settings; all but `write_contexts`, which came later, are of its 0.4.0."""


class TestEach:
    @pytest.mark.parametrize(("key", "default"), ORIGINAL.items())
    def test_has_its_name_and_its_default(self, key: str, default: object):
        found = getattr(Settings(), key)
        found = found.get_secret_value() if key == "dsn" else found
        assert (type(found), found) == (type(default), default)

    @pytest.mark.parametrize("key", ORIGINAL)
    def test_is_in_the_reference_and_on_the_hosts_screens(self, key: str):
        [doc] = [doc for doc in field_docs() if doc.key == key]
        assert f"| `{key}` | {f'`{doc.default}`' if doc.default else ''} |" in README
        assert key in {item["key"] for item in host_schema()}

    @pytest.mark.parametrize("key", ORIGINAL)
    def test_has_a_test_of_its_effect(self, key: str):
        assert hasattr(TestEffect, f"test_{key}")


class TestEffect:
    """One test per setting, named after it; each sees both sides of the switch."""

    @pytest.fixture(autouse=True)
    def parts(self, home, eventually, endpoint, request):
        self.home, self.eventually, self.endpoint = home, eventually, endpoint
        self.plain_dsn = lambda: request.getfixturevalue("dsn")
        """A database for vectors of the fake endpoint, where one is asked for."""

    def agent(self, theme: str = "marketing", **kwargs: Any):
        return self.home.agent(gateway_session_key=theme, **kwargs)

    def remote(self, **settings: Any):
        """Use the fake endpoint and a database made for it."""
        self.home.dsn = self.plain_dsn()
        self.home.configure(embed_url=self.endpoint.url, embed_model="test", **settings)
        return self.agent()

    def note(self, agent, *notes: str) -> None:
        for note in notes:
            agent.on_memory_write("add", "memory", note, {})

    def stored(self, theme: str, *notes: str) -> None:
        self.eventually(lambda: sorted(self.home.entries(theme)) == sorted(notes))

    def settled(self, agent, theme: str = "marketing") -> None:
        """Wait until whatever was told before is stored."""
        self.note(agent, "marker")
        self.eventually(lambda: "marker" in self.home.entries(theme))

    def vectors(self, table: str = "conversations") -> dict[str, bool]:
        rows = f"SELECT content, embedding IS NOT NULL FROM {table}"
        return dict(self.home.rows(rows))

    def colours(self, *others: str, **settings: Any):
        """Return an agent that has stored REPLY and *others*."""
        self.note(first := self.agent(), REPLY, *others)
        self.stored("marketing", REPLY, *others)
        first.shutdown()
        self.home.configure(**settings)
        return self.agent()

    def test_prefetch_limit(self):
        other = "The colours of the spring campaign were settled: teal and coral."
        agent = self.colours(other, prefetch_limit=1, min_similarity=0)
        block = agent.prefetch(QUESTION)
        assert (REPLY in block) + (other in block) == 1
        self.home.configure(prefetch_limit=0)
        assert self.agent().prefetch(QUESTION) == ""
        self.home.configure(min_similarity=0)
        block = self.agent().prefetch(QUESTION)
        assert REPLY in block
        assert other in block

    def test_min_similarity(self):
        agent = self.colours(min_similarity=1.0)
        assert agent.prefetch(QUESTION) == ""
        self.home.configure()
        assert REPLY in self.agent().prefetch(QUESTION)

    @pytest.mark.parametrize("on", [True, False])
    def test_embed_on_write(self, on: bool):
        self.home.configure(embed_on_write=on)
        agent = self.agent()
        self.note(agent, REPLY)
        self.stored("marketing", REPLY)
        agent.shutdown()
        assert self.vectors("memory_entries") == {REPLY: on}

    @pytest.mark.parametrize(
        ("default", "found"), [("current", 0), ("all", 1), ("marketing", 1)]
    )
    def test_scope_default(self, default: str, found: int):
        self.colours(scope_default=default)
        tool, question = "recall_memory", {"query": QUESTION}
        answer = self.agent("sales").handle_tool_call(tool, question)
        assert len(json.loads(answer)["results"]) == found

    @pytest.mark.parametrize(("most", "sizes"), [(1, [1] * 4), (256, [3])])
    def test_write_queue_maxsize(self, most: int, sizes: list[int]):
        agent = self.remote(write_queue_maxsize=most)
        self.settled(agent)
        self.endpoint.open.clear()
        self.endpoint.batches.clear()
        self.note(agent, "one")
        self.eventually(lambda: self.endpoint.batches)
        self.note(agent, "two", "three", "four")
        self.endpoint.open.set()
        self.stored("marketing", "marker", "one", "two", "three", "four")
        assert [len(batch) for batch in self.endpoint.batches][-len(sizes) :] == sizes

    @pytest.mark.parametrize("on", [True, False])
    def test_bulk_sync_on_init(self, on: bool):
        (self.home.path / "memories" / "MEMORY.md").write_text(REPLY)
        self.home.configure(bulk_sync_on_init=on)
        agent = self.home.agent(agent_identity="marketing", agent_workspace="")
        self.settled(agent)
        if on:
            self.eventually(lambda: REPLY in self.home.entries("marketing"))
        agent.shutdown()
        assert (REPLY in self.home.entries("marketing")) == on

    @pytest.mark.parametrize("on", [True, False])
    def test_sync_turns(self, on: bool):
        self.home.configure(sync_turns=on)
        agent = self.agent()
        agent.sync_turn(QUESTION, REPLY, session_id="s1")
        agent.on_session_end([{"role": "user", "content": f"{QUESTION} Say."}])
        agent.on_delegation("Find the colours", "Teal", child_session_id="c1")
        self.settled(agent)
        assert len(self.home.turns("marketing")) == (4 if on else 0)

    @pytest.mark.parametrize("most", [len(QUESTION), len(QUESTION) + 1])
    def test_turn_min_chars(self, most: int):
        self.home.configure(turn_min_chars=most)
        agent = self.agent()
        agent.sync_turn(QUESTION, REPLY, session_id="s1")
        self.settled(agent)
        said = [text for _, _, text in self.home.turns("marketing")]
        assert said == [text for text in (QUESTION, REPLY) if len(text) >= most]

    @pytest.mark.parametrize("themes", [["sales"], "sales, trading"])
    def test_allowed_themes(self, themes: object):
        self.home.configure(allowed_themes=themes)
        self.note(self.agent("Sales"), REPLY)
        self.note(self.agent("marketing"), "a stranger's")
        self.stored("sales", REPLY)
        self.stored("default", "a stranger's")
        self.home.configure()
        self.note(self.agent("marketing"), REPLY)
        self.stored("marketing", REPLY)

    def test_identity_aliases(self):
        self.home.configure(identity_aliases={"marketing-daily": "marketing"})
        self.note(self.agent("Marketing-Daily"), REPLY)
        self.stored("marketing", REPLY)

    @pytest.mark.parametrize(
        ("mode", "theme"), [("bucket", "_bench"), ("reject", "default")]
    )
    def test_bench_mode(self, mode: str, theme: str):
        self.home.configure(bench_mode=mode)
        self.note(self.agent("writing-bench"), REPLY)
        self.stored(theme, REPLY)

    @pytest.mark.parametrize(
        ("policy", "embedded"),
        [
            ("all", [True, True, True]),
            ("substantive_only", [True, False, True]),
            ("none", [False, False, False]),
        ],
    )
    def test_conversation_embed_policy(self, policy: str, embedded: list[bool]):
        self.home.configure(conversation_embed_policy=policy)
        agent = self.agent()
        long = f"{REPLY} {REPLY.upper()}"
        agent.sync_turn(QUESTION, REPLY, session_id="s1")
        agent.sync_turn("ok", long, session_id="s1")
        self.settled(agent)
        agent.shutdown()
        assert self.vectors() == dict(
            zip((QUESTION, REPLY, long), embedded, strict=True)
        )
        # A turn without a vector is still found, by its words.
        answer = self.agent().handle_tool_call(
            "recall_conversation", {"query": "teal and coral print shop"}
        )
        assert REPLY in {hit["content"] for hit in json.loads(answer)["results"]}

    @pytest.mark.parametrize(("days", "status", "left"), [(7, 0, 0), (0, 2, 1)])
    def test_ttl_days(
        self,
        days: int,
        status: int,
        left: int,
        capsys: pytest.CaptureFixture[str],
    ):
        self.home.configure(ttl_days=days)
        agent = self.agent()
        agent.sync_turn(QUESTION, "ok", session_id="s1")
        self.settled(agent)
        agent.shutdown()
        old = datetime.now(UTC) - timedelta(days=8)
        with psycopg.connect(self.home.dsn) as connection:
            connection.execute("UPDATE conversations SET ts = %s", (old,))
        restarted = self.agent()
        self.note(restarted, "no living agent deletes anything")
        self.stored("marketing", "marker", "no living agent deletes anything")
        assert len(self.home.turns("marketing")) == 1
        words = ["prune", "--execute", "--home", str(self.home.path)]
        assert cli.main(words) == status
        capsys.readouterr()
        assert len(self.home.turns("marketing")) == left
        assert len(self.home.entries("marketing")) == 2

    @pytest.mark.parametrize(("retries", "vector"), [(0, False), (2, True)])
    def test_embed_write_retries(self, retries: int, vector: bool):
        agent = self.remote(embed_write_retries=retries, embed_write_backoff=0)
        self.settled(agent)
        self.endpoint.failures = 2
        self.note(agent, REPLY)
        self.stored("marketing", REPLY, "marker")
        agent.shutdown()  # before a later healing hides what was stored
        assert self.vectors("memory_entries")[REPLY] == vector

    def test_embed_write_backoff(self):
        agent = self.remote(embed_write_backoff=0.2)
        self.settled(agent)
        self.endpoint.failures = 2
        started = datetime.now(UTC)
        self.note(agent, REPLY)
        self.stored("marketing", REPLY, "marker")
        assert datetime.now(UTC) - started >= timedelta(seconds=0.2 + 0.4)  # it doubles
        assert self.vectors("memory_entries")[REPLY]

    @pytest.mark.parametrize(
        ("contexts", "writers"),
        [
            (None, {"primary", "cron"}),
            (["primary"], {"primary"}),
            ("Primary , FLUSH", {"primary", "flush"}),
        ],
    )
    def test_write_contexts(self, contexts: object, writers: set[str]):
        self.home.configure(**({"write_contexts": contexts} if contexts else {}))
        for context in ("primary", "cron", "subagent", "flush"):
            agent = self.agent(agent_context=context)
            self.note(agent, f"by {context}")
            agent.sync_turn(f"{QUESTION} says {context}", "ok", session_id=context)
        wrote = {f"by {context}" for context in writers}
        self.stored("marketing", *wrote)
        self.eventually(lambda: len(self.home.turns("marketing")) == len(writers))
        said = {session for session, _, _ in self.home.turns("marketing")}
        assert said == writers
        assert REPLY not in self.agent(agent_context="subagent").prefetch(QUESTION)

    def test_dsn(self, local_model_dsn: str):
        self.note(self.agent(), REPLY)
        self.stored("marketing", REPLY)
        with psycopg.connect(local_model_dsn) as connection:
            [count] = connection.execute("SELECT count(*) FROM memory_entries")
        assert count == (1,)

    def test_embed_url(self):
        self.note(self.remote(), REPLY)
        self.eventually(lambda: self.vectors("memory_entries") == {REPLY: True})
        assert [REPLY] in self.endpoint.batches

    def test_embed_model(self):
        self.note(self.remote(), REPLY)
        self.stored("marketing", REPLY)
        assert set(self.endpoint.models) == {"test"}


def test_the_reference_names_no_setting_that_is_not_there():
    table = README.partition("config --reference) -->")[2].partition("<!--")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [
        doc.key for doc in field_docs()
    ]
