"""Inputs that broke systems of this kind in public, from the hook to the row."""

from __future__ import annotations

import json
import logging
import random
import string

import pytest

from hermes_pgmemory import engines

QUESTION = "Which colours did we settle on for the spring campaign?"
REPLY = "We settled on teal and coral, as agreed with the print shop."
KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PEM = f"-----BEGIN PRIVATE KEY-----\n{KEY_LINE}\n-----END PRIVATE KEY-----"


def add(agent, content: str) -> None:
    agent.on_memory_write("add", "memory", content, {})


class TestGroups:
    """A group's members must not read what the themes know."""

    KEY = "agent:main:whatsapp:group:120363000000000301@g.us"

    @pytest.mark.parametrize("tool", ["recall_memory", "recall_conversation"])
    @pytest.mark.parametrize("scope", ["all", "marketing", "default", "whatsapp-dm"])
    def test_a_wide_scope_is_refused_and_no_scope_finds_nothing(
        self, home, eventually, tool: str, scope: str
    ):
        marketing = home.agent(gateway_session_key="marketing")
        add(marketing, REPLY)
        marketing.sync_turn(QUESTION, REPLY, session_id="s1")
        eventually(lambda: len(home.turns("marketing")) == 2)
        group = home.agent(gateway_session_key=self.KEY)
        wide = group.handle_tool_call(tool, {"query": QUESTION, "scope": scope})
        assert "error" in json.loads(wide)
        assert REPLY not in wide
        own = json.loads(group.handle_tool_call(tool, {"query": QUESTION}))
        assert own["results"] == []
        assert group.prefetch(QUESTION) == ""

    def test_unless_the_operator_lets_them(self, home, eventually):
        home.configure(cross_theme_recall=True)
        add(home.agent(gateway_session_key="marketing"), REPLY)
        eventually(lambda: home.entries("marketing"))
        group = home.agent(gateway_session_key=self.KEY)
        asked = {"query": QUESTION, "scope": "all"}
        assert REPLY in group.handle_tool_call("recall_memory", asked)


class TestMemoryFiles:
    def start(self, home, raw: bytes):
        (home.path / "memories" / "MEMORY.md").write_bytes(raw)
        engines.close_all()  # as a new process
        return home.agent(agent_identity="work")

    def test_a_byte_order_mark_that_goes_makes_no_second_row(self, home, eventually):
        entries = ["First entry", "Second entry"]
        text = "First entry\n§\nSecond entry"
        self.start(home, b"\xef\xbb\xbf" + text.encode())
        eventually(lambda: home.entries("work") == entries)
        add(self.start(home, text.encode()), "marker")
        eventually(lambda: "marker" in home.entries("work"))
        assert sorted(home.entries("work")) == [*entries, "marker"]
        assert home.rows("SELECT count(*) FROM memory_entries") == [(3,)]

    def test_what_is_not_utf8_is_told_of_once(
        self, home, eventually, caplog: pytest.LogCaptureFixture
    ):
        caplog.set_level(logging.WARNING)
        self.start(home, "First\n§\ncafé\n§\nLast".encode("latin-1"))
        eventually(lambda: len(home.entries("work")) >= 2)
        assert home.entries("work") == ["First", "Last"]
        home.agent(agent_identity="work")
        told = [r.getMessage() for r in caplog.records if "MEMORY.md" in r.getMessage()]
        assert len(told) == 1
        assert "UTF-8" in told[0]

    def test_plain_markdown_is_one_entry_found_by_its_beginning(self, home, eventually):
        words = random.Random(36)
        filler = "\n\n".join(
            "## " + " ".join(words.choices(("alpha", "beta", "gamma", "delta"), k=12))
            for _ in range(320)
        )
        text = f"# Colours\n\n{REPLY}\n\n{filler}"
        assert len(text) > 20_000
        agent = self.start(home, text.encode())
        eventually(
            lambda: (
                home.rows("SELECT embedding IS NOT NULL FROM memory_entries")
                == [(True,)]
            )
        )
        assert home.entries("work") == [text]
        hits = agent.handle_tool_call("recall_memory", {"query": QUESTION})
        assert REPLY in hits


class TestOddContent:
    def test_long_text_that_does_not_compress_is_kept_whole(self, home, eventually):
        letters = string.ascii_letters + string.digits + " "
        text = "".join(random.Random(27).choices(letters, k=6000)).strip()
        # What the model makes of it takes seconds, and is no matter of keeping it.
        home.configure(embed_on_write=False)
        agent = home.agent(gateway_session_key="marketing")
        add(agent, text)
        eventually(lambda: home.entries("marketing") == [text])
        agent.on_memory_write("replace", "memory", "short", {"old_text": text[9:3000]})
        eventually(lambda: home.entries("marketing") == ["short"])

    @pytest.mark.parametrize(
        ("said", "secret"),
        [
            ("My API key is sk-proj-abcDEF1234567890abcdEFGH.", "abcDEF1234567890"),
            ("Please run export FOO_TOKEN=q8Zr4LmN0pXv2TyW6s", "q8Zr4LmN0pXv2TyW6s"),
            ("It is postgresql://bob:hunter2pass@db/x today.", "hunter2pass"),
            (PEM, KEY_LINE),
        ],
        ids=["a key", "an export", "a connection string", "a PEM block"],
    )
    def test_a_secret_reaches_neither_the_endpoint_nor_a_row_nor_a_file(
        self, home, endpoint, dsn: str, eventually, said: str, secret: str
    ):
        home.dsn = dsn
        home.configure(embed_url=endpoint.url, embed_model="test")
        agent = home.agent(gateway_session_key="marketing")
        add(agent, said)
        agent.sync_turn(f"Keep this for the deployment: {said}", "ok", session_id="s1")
        agent.on_delegation(f"Use this: {said}", said, child_session_id="c1")
        agent.prefetch(f"What about this one? {said}")
        eventually(lambda: len(home.turns("marketing")) == 2)
        agent.shutdown()
        assert endpoint.batches
        seen = [json.dumps(endpoint.batches)]
        for table in ("memory_entries", "conversations", "memory_agent_edges"):
            seen += [row for (row,) in home.rows(f"SELECT t::text FROM {table} t")]
        files = (home.path / "pgvector").rglob("*")
        seen += [f.read_bytes().decode("latin-1") for f in files if f.is_file()]
        assert not [text for text in seen if secret in text]

    def test_what_only_looks_like_one_stays(self, home, eventually):
        text = (
            "Fixed in 9fceb02d0ae598e95dc970b74767f19372d61af8, see ticket"
            " 123e4567-e89b-12d3-a456-426614174000."
        )
        add(home.agent(gateway_session_key="marketing"), text)
        eventually(lambda: home.entries("marketing") == [text])
