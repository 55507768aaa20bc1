"""Sessions, identities and ends, through the host's own loader and MemoryManager."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import pytest
from _quickstart.host import Home
from hook_kit import ANSWER, SPOKEN, Start, add, recalled, speak
from host_kit import UNNAMED, Database, MakeHome, eventually

from hermes_pgmemory.models import EmbeddingModel


class TestSessions:
    def test_after_a_switch_turns_belong_to_the_new_session(
        self, start: Start, database: Database
    ):
        manager = start("A")
        speak(manager, "old", "A")
        manager.on_session_switch("B", parent_session_id="A", reset=True)
        speak(manager, "new", "B")
        eventually(lambda: len(database.turns(UNNAMED)), 4)
        assert database.sessions(UNNAMED) == {"A", "B"}
        found = recalled(
            manager, "recall_conversation", query="boathouse roof", scope="session"
        )
        assert set(found) == {SPOKEN.format("new"), ANSWER.format("new")}

    def test_a_transcript_told_again_adds_nothing(
        self, start: Start, database: Database
    ):
        manager = start("A")
        transcript: list[dict[str, str]] = []
        for name in ("harbour", "garden"):
            transcript += speak(manager, name, "A")
            manager.on_session_end(transcript)
        summary = {
            "role": "user",
            "content": "[CONTEXT SUMMARY] They spoke about two committees at length.",
        }
        manager.on_session_end([summary, *transcript[2:]])
        manager.on_session_end(transcript)
        speak(manager, "last", "A")
        eventually(lambda: ANSWER.format("last") in dict(_by_text(database)), True)
        counted = dict(_by_text(database))
        for message in transcript:
            assert counted[message["content"]] == 1

    @pytest.mark.parametrize(
        "interrupted",
        [
            "Operation interrupted: waiting for model response (3s elapsed).",
            "Operation interrupted: handling API error (retry 2/3, 12s elapsed).",
        ],
    )
    def test_an_interruption_is_not_something_the_assistant_said(
        self, start: Start, database: Database, interrupted: str
    ):
        manager = start()
        manager.sync_all(SPOKEN.format("first"), interrupted, session_id="session-1")
        speak(manager, "second", "session-1")
        eventually(lambda: ANSWER.format("second") in dict(_by_text(database)), True)
        assert interrupted not in dict(_by_text(database))

    @pytest.mark.parametrize("context", ["subagent", "flush", "background"])
    def test_who_does_not_write_still_recalls(
        self, start: Start, database: Database, context: str
    ):
        writer = start()
        add(writer, "The spare key hangs in the shed.")
        eventually(lambda: len(database.entries(UNNAMED)), 1)
        reader = start("child", agent_context=context)
        add(reader, "A child's idea.")
        speak(reader, "child", "child")
        speak(writer, "parent", "session-1")
        eventually(lambda: len(database.turns(UNNAMED)), 2)
        assert database.entries(UNNAMED) == ["The spare key hangs in the shed."]
        found = recalled(reader, "recall_memory", query="Where is the other key?")
        assert found == ["The spare key hangs in the shed."]


def _by_text(database: Database) -> list[tuple[str, int]]:
    texts = [text for _, text in database.turns(UNNAMED)]
    return [(text, texts.count(text)) for text in texts]


class TestIdentity:
    def test_two_profiles_in_one_process_do_not_mix(
        self, start: Start, database: Database
    ):
        first = start(agent_identity="p1")
        second = start(agent_identity="p2")
        add(first, "Written by the first.")
        add(second, "Written by the second.")
        eventually(lambda: database.entries("p1"), ["Written by the first."])
        eventually(lambda: database.entries("p2"), ["Written by the second."])

    def test_memory_files_come_from_the_home_the_host_names(
        self, start: Start, host_home: Home, database: Database, tmp_path: Path
    ):
        other = _home_beside(host_home, tmp_path / "other")
        _write_memory(host_home.path, "From the home in the environment.")
        _write_memory(other, "From the home the host named.")
        start(hermes_home=str(other))
        eventually(lambda: database.entries(UNNAMED), ["From the home the host named."])

    @pytest.mark.parametrize(
        ("said", "theme"),
        [
            ({"gateway_session_key": "", "agent_identity": "work"}, "work"),
            ({"gateway_session_key": "  ", "agent_identity": "work"}, "work"),
            ({"gateway_session_key": "sales", "agent_identity": "work"}, "sales"),
            ({"gateway_session_key": "", "agent_identity": ""}, "hermes"),
            (
                {
                    "gateway_session_key": "",
                    "agent_identity": "",
                    "agent_workspace": "",
                },
                "default",
            ),
        ],
    )
    def test_an_empty_name_is_no_name(
        self, start: Start, database: Database, said: Mapping[str, str], theme: str
    ):
        add(start(**said), "Whose is this?")
        eventually(lambda: database.entries(theme), ["Whose is this?"])


def _home_beside(home: Home, folder: Path) -> Path:
    folder.mkdir()
    config = (home.path / "config.yaml").read_text(encoding="utf-8")
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    return folder


def _write_memory(home: Path, entry: str) -> None:
    (home / "memories").mkdir()
    (home / "memories" / "MEMORY.md").write_text(entry, encoding="utf-8")


class SlowEndpoint:
    """An embedding endpoint that takes a request and answers when it is let go."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.let_go = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: object) -> None:
                pass

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.asked.set()
                endpoint.let_go.wait(30)
                self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_ending_while_a_text_is_being_embedded_loses_nothing_and_says_nothing(
    start: Start,
    make_home: MakeHome,
    database: Database,
    local_model: EmbeddingModel,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    with SlowEndpoint() as endpoint, caplog.at_level(logging.WARNING):
        settings = {
            "dsn": database.dsn,
            "embed_url": endpoint.url,
            "embed_model": local_model.name,
        }
        home = make_home(tmp_path / "slow", settings)
        manager = start(hermes_home=str(home.path))
        add(manager, "Written just before the end.")
        assert endpoint.asked.wait(20)
        manager.shutdown_all()
    assert not [record for record in caplog.records if record.exc_info]
    replay = home.run("hermes-pgvector", "replay", "--home", str(home.path))
    assert replay.returncode == 0, replay.stderr
    assert database.entries(UNNAMED) == ["Written just before the end."]
