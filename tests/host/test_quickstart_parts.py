"""The quickstart's own parts: what it scripts, how it judges, what it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from _quickstart import findings, places, processes
from _quickstart.__main__ import _last_line
from _quickstart.chat_model import ChatModel, split_memory
from _quickstart.evidence import Ambient, Evidence, Recall, gather
from _quickstart.findings import Outcome, Score, judge
from _quickstart.host import HostError
from _quickstart.minions import MINIONS, Minion
from _quickstart.places import Place

from hermes_pgmemory.embedded.binaries import find_binaries

MEMORY = "<memory-context>\n[System note: recalled]\n\n- the sky\n</memory-context>"


def completion(model: ChatModel, **body: Any) -> str:
    connection = HTTPConnection("127.0.0.1", model.port, timeout=10)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


class TestChatModel:
    @pytest.fixture
    def model(self) -> Iterator[ChatModel]:
        script = {"Remember it.": [["memory", {"action": "add"}]]}
        with ChatModel(script=script) as model:
            yield model

    def said(self, model: ChatModel, *messages: dict[str, Any]) -> dict[str, Any]:
        reply = json.loads(completion(model, messages=messages))
        return reply["choices"][0]["message"]

    @pytest.mark.parametrize(
        ("text", "tool", "arguments"),
        [
            ('Do it\nCALL recall_memory {"query": "a b"}', "recall_memory", "a b"),
            ("Remember it.", "memory", "add"),
        ],
    )
    def test_a_call_line_or_the_script_is_one_round_then_it_answers(
        self, model: ChatModel, text: str, tool: str, arguments: str
    ):
        first = self.said(model, user(f"{text}\n\n{MEMORY}"))
        [call] = first["tool_calls"]
        assert call["function"]["name"] == tool
        assert arguments in call["function"]["arguments"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "{}"}
        assert "tool_calls" not in self.said(model, user(text), first, result)

    @pytest.mark.parametrize("text", ["", "hi", "A question of the usual length?"])
    def test_every_answer_is_long_enough_to_be_kept_and_repeatable(
        self, model: ChatModel, text: str
    ):
        answer = self.said(model, user(text))["content"]
        assert len(answer) >= 40
        assert self.said(model, user(text))["content"] == answer

    def test_a_streamed_answer_says_the_same(self, model: ChatModel):
        whole = self.said(model, user("Say it word by word."))["content"]
        raw = completion(model, messages=[user("Say it word by word.")], stream=True)
        events = [line[6:] for line in raw.splitlines() if line.startswith("data: ")]
        assert events.pop() == "[DONE]"
        choices = [choice for e in events for choice in json.loads(e)["choices"]]
        spoken = [choice["delta"].get("content") or "" for choice in choices]
        assert "".join(spoken) == whole

    def test_it_repeats_what_it_remembers_if_asked_to(self):
        with ChatModel(quote_memory=True) as model:
            answer = self.said(model, user(f"How is the weather?\n\n{MEMORY}"))
        assert answer["content"].endswith("memory says: the sky")

    def test_requests_are_kept_as_they_came(self, model: ChatModel):
        completion(model, messages=[user(f"Look\n\n{MEMORY}")])
        [request] = model.requests
        said, memory = split_memory(request["messages"][0]["content"])
        assert (said, memory.endswith("- the sky")) == ("Look", True)


def perfect(minion: Minion) -> Evidence:
    """Return the evidence of a minion that finds all it should and nothing else."""
    answers = {f.question: f.text for m in MINIONS for f in (*m.memories, *m.said)}
    own = {fact.question for fact in (*minion.memories, *minion.said)}
    recalls: list[Recall] = []
    for message in findings.questions(minion):
        for tool, arguments in message.calls:
            scope = arguments.get("scope", "")
            query = arguments["query"]
            recalls.append(
                Recall(
                    theme=minion.theme,
                    tool=tool,
                    query=query,
                    scope=scope,
                    result=answers.get(query, "") if scope or query in own else "",
                )
            )
    ambient = [
        Ambient(theme=minion.theme, said=fact.question, memory=fact.text)
        for fact in minion.memories
    ]
    return Evidence(tuple(recalls), tuple(ambient))


def outcome(evidence: Evidence) -> Outcome:
    """Judge *evidence* for the first minion, as if the others were perfect."""
    first, *others = MINIONS
    entries, turns = findings.expected_rows()
    found = (judge(first, evidence), *(judge(m, perfect(m)) for m in others))
    return Outcome(entries=entries, turns=turns, findings=found)


class TestJudging:
    mine, other, _ = MINIONS

    def with_recall(self, **changes: Any) -> Evidence:
        seen = perfect(self.mine)
        recall = {"theme": self.mine.theme, "tool": "recall_memory", "query": "?"}
        extra = Recall(**{**recall, "scope": "", **changes})
        return Evidence((*seen.recalls, extra), seen.ambient)

    def test_all_found_and_nothing_else_is_no_complaint(self):
        assert outcome(perfect(self.mine)).complaints() == []

    @pytest.mark.parametrize("leg", ["recalls", "ambient"])
    def test_what_was_not_found_is_a_complaint(self, leg: str):
        seen = perfect(self.mine)
        blind = {"recalls": seen.recalls, "ambient": seen.ambient, leg: ()}
        assert outcome(Evidence(**blind)).complaints()

    def test_an_others_text_is_a_leak_unless_it_was_asked_for(self):
        text = self.other.memories[0].text
        leaked = self.with_recall(result=f'[{{"content": "{text}"}}]')
        assert outcome(leaked).leaks == [text]
        assert outcome(self.with_recall(result=text, scope="all")).leaks == []

    def test_an_others_text_that_comes_unasked_is_a_leak(self):
        seen = perfect(self.mine)
        text = self.other.said[0].text
        block = Ambient(theme=self.mine.theme, said="Hello", memory=f"- {text}")
        assert outcome(Evidence(seen.recalls, (*seen.ambient, block))).leaks == [text]

    @pytest.mark.parametrize("number", range(3))
    def test_what_was_removed_or_replaced_must_not_come_back(self, number: int):
        text = self.mine.forgotten[number].text
        [complaint] = outcome(self.with_recall(result=text)).complaints()
        assert text in complaint

    def test_missing_or_doubled_rows_are_complaints(self):
        good = outcome(perfect(self.mine))
        for entries, turns in ((good.entries - 1, good.turns), (good.entries, 61)):
            bad = Outcome(entries=entries, turns=turns, findings=good.findings)
            assert len(bad.complaints()) == 1

    def test_the_last_line_is_what_other_programs_read(self):
        line = json.loads(_last_line(outcome(perfect(self.mine)), "", 12.34))
        assert line == {
            "ok": True,
            "themes": 3,
            "entries": 21,
            "turns": 60,
            "own_recall": 1.0,
            "leaks": 0,
            "cross_theme_recall": 1.0,
            "seconds": 12.3,
        }

    def test_a_share_of_nothing_is_nothing(self):
        assert Score(right=0, of=0).share == 0

    def test_a_recall_is_read_from_what_the_host_sent(self):
        call = {"name": "recall_memory", "arguments": '{"query": "q"}'}
        asked = {"role": "assistant", "tool_calls": [{"id": "1", "function": call}]}
        answered = {"role": "tool", "tool_call_id": "1", "content": "found"}
        system = {"role": "system", "content": f"Long prompt. {self.mine.persona}"}
        messages = [system, user(f"Hi\n\n{MEMORY}"), asked, answered]
        seen = gather([{"messages": messages[:2]}, {"messages": messages}])
        [recall] = seen.recalls
        assert (recall.theme, recall.result) == (self.mine.theme, "found")
        assert [block.said for block in seen.ambient] == ["Hi"]


class TestConversations:
    def test_nothing_said_is_too_short_or_means_two_things(self):
        said = [m.text for minion in MINIONS for m in minion.messages]
        asked = [m.text for minion in MINIONS for m in findings.questions(minion)]
        assert min(map(len, said)) >= 40
        assert len({*said, *asked}) == len([*said, *asked])

    def test_no_text_lies_within_another(self):
        texts = [text for minion in MINIONS for text in minion.texts()]
        assert not [(a, b) for a in texts for b in texts if a in b and a is not b]


class TestPlaces:
    def test_a_folder_with_something_else_in_it_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        (tmp_path / "thesis.txt").write_text("years of work")
        monkeypatch.setenv("QUICKSTART_HOME", str(tmp_path))
        with pytest.raises(HostError, match="something else"):
            places.choose()
        assert (tmp_path / "thesis.txt").exists()

    @pytest.mark.parametrize("own", ["", ".hermes"])
    def test_the_users_own_home_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
    ):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("QUICKSTART_HOME", f"~/{own}")
        with pytest.raises(HostError, match="your own"):
            places.choose()
        assert list(tmp_path.iterdir()) == []

    def test_a_former_runs_folder_is_begun_anew(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("QUICKSTART_HOME", str(tmp_path / "run"))
        first = places.choose()
        (Path(first.root) / "old").touch()
        second = places.choose()
        assert first.root == second.root
        assert not (Path(second.root) / "old").exists()
        first.remove()
        second.remove()
        assert Path(second.root).exists()

    def test_a_temporary_folder_goes_with_its_run(
        self, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.delenv("QUICKSTART_HOME", raising=False)
        place = places.choose()
        place.remove()
        assert not Path(place.root).exists()
        assert not Path(place.runtime).exists()

    def test_only_a_runs_own_folder_is_ever_deleted(self, tmp_path: Path):
        Place(root=str(tmp_path), runtime="", temporary=True).remove()
        assert tmp_path.exists()


class TestProcesses:
    SLEEP = "import time; print(flush=True); time.sleep(600)"

    def sleeper(self, *prefix: str, **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", self.SLEEP],
            stdout=subprocess.PIPE,
            **options,
        )
        assert process.stdout is not None
        process.stdout.readline()
        return process

    def test_a_runs_processes_are_ended_and_no_others(self, tmp_path: Path):
        runtime = tmp_path / "runtime"
        root = tmp_path / "root"
        root.mkdir()
        inherited = {"HERMES_PGMEMORY_RUNTIME_DIR": str(runtime)}
        working = [find_binaries() / "pg_test_timing", "--duration=600"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        server = subprocess.Popen(working, cwd=root, **quiet)
        ours = [self.sleeper(env=inherited), server]
        other = {"HERMES_PGMEMORY_RUNTIME_DIR": f"{runtime}-2"}
        stranger = self.sleeper(env=other, cwd=root)
        try:
            found = processes.ours(root, runtime)
            assert sorted(found) == sorted(process.pid for process in ours)
            assert processes.end(root, runtime) == 2
            assert [process.wait() for process in ours] == [-signal.SIGTERM] * 2
            assert stranger.poll() is None
        finally:
            for process in (*ours, stranger):
                process.kill()
                process.communicate()

    def test_a_person_at_a_terminal_is_spared(self, tmp_path: Path):
        keyboard, terminal = os.openpty()
        told = {**os.environ, "HERMES_PGMEMORY_RUNTIME_DIR": str(tmp_path)}
        person = self.sleeper("setsid", "--ctty", env=told, stdin=terminal)
        try:
            assert processes.ours(tmp_path, tmp_path) == []
        finally:
            person.kill()
            person.communicate()
            os.close(keyboard)
            os.close(terminal)

    def test_whoever_started_us_is_spared(self):
        assert {os.getpid(), os.getppid()} <= processes._lineage()
