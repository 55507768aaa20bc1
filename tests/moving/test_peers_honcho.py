"""What a real server of Honcho told is read as it meant it."""

from __future__ import annotations

import json

import pytest
from peers_kit import (
    HONCHO,
    Told,
)

from hermes_pgmemory.moving.sources import honcho


class TestHoncho:
    MESSAGES = HONCHO / "messages.json"
    CONCLUSIONS = HONCHO / "conclusions.json"

    def test_sessions_become_turns_in_their_order(self, aim):
        told = Told(honcho.read, aim, self.MESSAGES)
        said = [one for one in told.turns if one.session_id == "my-project"]
        assert [(one.theme, one.role, one.content) for one in said] == [
            ("desk", "user", "What does Halden owe?"),
            ("desk", "assistant", "It is 300 euros."),
            ("desk", "user", "What does Halden owe?"),
            ("desk", "assistant", "Still 300 — schön! 🐶"),
        ]
        assert said[1].at.isoformat()[:21] == "2025-01-01T00:00:01.5"

    @pytest.mark.parametrize("file", ["messages.json", "reverse.json"])
    def test_messages_of_one_moment_stay_in_order(self, aim, file):
        told = Told(honcho.read, aim, HONCHO / file)
        at_once = [one for one in told.turns if one.session_id == "at-once"]
        assert [one.content for one in at_once] == [
            "This was said long before.",
            "Which of these came first?",
            "This came second, at the same moment.",
            "This came third and last.",
        ]
        assert sorted(at_once, key=lambda one: one.at) == at_once

    def test_chats_are_their_contacts(self, aim, bob):
        told = Told(honcho.read, aim, self.MESSAGES, self.CONCLUSIONS)
        private = {
            (one.theme, one.subject): one.session_id
            for one in told.turns
            if one.subject
        }
        [group] = [subject for theme, subject in private if theme != "whatsapp-dm"]
        assert set(private) == {("whatsapp-dm", bob), ("external-group", group)}
        assert not any("555010" in session for session in private.values())
        assert told.whose("Likes green tea.") == ("whatsapp-dm", bob)
        # It names no session; but Bob was heard in this chat only.
        assert told.whose("Writes in the evening.") == ("whatsapp-dm", bob)

    def test_conclusions_are_of_the_messages_workspace(self, aim):
        told = Told(honcho.read, aim, self.CONCLUSIONS, self.MESSAGES)
        found = {(theme, content) for theme, content in told.texts}
        assert found == {
            ("desk", "Alice asks twice."),
            ("desk", "Alice is patient."),
            ("desk", "Answers in euros."),
        }
        assert told.entry("Alice asks twice.").write.target == "user"
        assert told.entry("Answers in euros.").write.target == "memory"

    def test_a_session_in_several_files_is_one(self, aim, tmp_path):
        whole = Told(honcho.read, aim, self.MESSAGES)
        pages = []
        for answer in json.loads(self.MESSAGES.read_text()):
            for item in answer["items"]:
                pages.append(tmp_path / f"{len(pages)}.json")
                pages[-1].write_text(json.dumps({**answer, "items": [item]}))
        told = Told(honcho.read, aim, *pages, HONCHO / "context.json")
        assert told.turns == whole.turns

    @pytest.mark.parametrize(
        ("session", "theme"),
        [
            ("agent-main-matrix-dm--room-server-example", "whatsapp-dm"),
            ("agent-my-profile-signal-dm-ann", "whatsapp-dm"),
            ("agent-main-discord-thread-12-34", "external-group"),
            ("agent-main-notes-about-signal", "desk"),
        ],
    )
    def test_the_hosts_name_of_a_session_tells_its_chat(
        self, aim, tmp_path, session, theme
    ):
        answer = json.loads(self.MESSAGES.read_text())[0]
        items = [{**one, "session_id": session} for one in answer["items"]]
        (tmp_path / "m.json").write_text(json.dumps(items))
        told = Told(honcho.read, aim, tmp_path / "m.json")
        assert {one.theme for one in told.turns} == {theme}
