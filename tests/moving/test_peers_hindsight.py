"""What a real server of Hindsight wrote is read as it meant it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import pytest
from peers_kit import (
    BOB,
    HINDSIGHT,
    OLD_HINDSIGHT,
    Told,
)

from hermes_pgmemory.moving.sources import hindsight


class TestHindsight:
    SEEN = "It is known: Alice works at Halden since 2024."
    ALWAYS = frozenset(
        {
            "Alice works at Halden since 2024.",
            "The build takes nine minutes.",
            "Water boils at 100 degrees.",
        }
    )
    WHOLE = ("bank.zip", "old.zip", "list.json")

    @pytest.mark.parametrize("file", WHOLE)
    def test_a_bank(self, aim, bob, file):
        told = Told(hindsight.read, aim, HINDSIGHT / file)
        theme = "hermes-coder" if file.endswith(".zip") else "hermes"
        assert told.texts == {(theme, text) for text in (*self.ALWAYS, self.SEEN)}
        assert told.whose("Bob likes green tea.") == ("whatsapp-dm", bob)
        assert told.whose("The choir meets on Mondays.")[0] == "external-group"
        # What was observed in a chat with Bob and in a group is neither's.
        assert told.left_out == [hindsight.MIXED]
        written = json.dumps([one.write.metadata for one in told.entries])
        assert BOB not in written

    @pytest.mark.parametrize("file", WHOLE)
    def test_facts_are_dated(self, aim, file):
        told = Told(hindsight.read, aim, HINDSIGHT / file)
        at = {one.write.content: one.write.at.isoformat() for one in told.entries}
        assert at["Alice works at Halden since 2024."] == "2025-01-15T10:30:00+00:00"
        assert at["The build takes nine minutes."] == "2025-01-16T06:00:00+00:00"
        archive = Told(hindsight.read, aim, HINDSIGHT / "part.zip")
        timeless = archive.entry("Water boils at 100 degrees.").write.at
        lag = datetime.fromisoformat(at["Water boils at 100 degrees."]) - timeless
        assert abs(lag.total_seconds()) < 60  # when Hindsight took it in, not now

    def test_a_fact_keeps_where_it_came_from(self, aim):
        listed = json.loads((HINDSIGHT / "list.json").read_text())["items"]
        fact = next(one for one in listed if one["context"] == "work")
        told = Told(hindsight.read, aim, HINDSIGHT / "bank.zip")
        note = told.entry(fact["text"]).write.metadata
        assert note["import_id"] == fact["id"]
        assert note["document"] == "session_1"
        assert set(str(note["tags"]).split(", ")) == {"people", "session:s1"}

    def test_a_document_named_after_a_chat_names_nobody(self, aim, tmp_path):
        items = json.loads((HINDSIGHT / "list.json").read_text())["items"]
        named = [{**one, "document_id": f"telegram:{BOB}"} for one in items]
        (tmp_path / "list.json").write_text(json.dumps(named))
        told = Told(hindsight.read, aim, tmp_path / "list.json")
        assert told.texts
        assert BOB not in str([one.write.metadata for one in told.entries])

    def test_facts_without_ids_or_of_odd_types_keep_their_own(self, aim, bob, tmp_path):
        chat = {"platform": "telegram", "chat_type": "dm", "user_id": BOB}
        odd = {"id": [1], "tags": "x", "document_id": {}, "source_memory_ids": {"a": 1}}
        items = [
            {"text": "For all.", "metadata": {}},
            {"text": "For Bob.", "metadata": chat},
            {"text": "Odd.", "metadata": [], **odd},
            {"text": "Seen.", "metadata": {}, "type": "observation", **odd},
        ]
        (tmp_path / "list.json").write_text(json.dumps(items))
        told = Told(hindsight.read, aim, tmp_path / "list.json")
        assert {text for _, text in told.texts} == {"For all.", "Odd."}
        assert told.whose("For Bob.") == ("whatsapp-dm", bob)
        assert told.left_out == [hindsight.MIXED]

    def test_pages_of_its_list_belong_together(self, aim, tmp_path):
        answer = json.loads((HINDSIGHT / "list.json").read_text())
        whole = Told(hindsight.read, aim, HINDSIGHT / "list.json")
        pages = []
        for number, item in enumerate(answer["items"]):
            page = {**answer, "items": [item], "limit": 1, "offset": number}
            pages.append(tmp_path / f"{number}.json")
            pages[-1].write_text(json.dumps(page))
        told = Told(hindsight.read, aim, *pages)
        assert (told.entries, told.left_out) == (whole.entries, whole.left_out)

    def test_what_was_observed_in_one_contacts_facts_is_that_contacts(
        self, aim, bob, tmp_path
    ):
        items = json.loads((HINDSIGHT / "list.json").read_text())["items"]
        [source] = [one["id"] for one in items if one["text"].startswith("Bob likes")]
        for one in items:
            if one["text"].startswith("Bob drinks"):
                one["source_memory_ids"] = [source]
        (tmp_path / "list.json").write_text(json.dumps(items))
        told = Told(hindsight.read, aim, tmp_path / "list.json")
        assert told.whose("Bob drinks tea after the choir.") == ("whatsapp-dm", bob)

    def test_what_recall_finds_and_what_was_invalidated(self, aim):
        told = Told(hindsight.read, aim, HINDSIGHT / "recall.json")
        # It does not tell what an observation was made of.
        assert {text for _, text in told.texts} == self.ALWAYS
        assert set(told.left_out) == {hindsight.MIXED}
        told = Told(hindsight.read, aim, HINDSIGHT / "invalid.json")
        assert (told.entries, told.left_out) == ([], [hindsight.INVALID])

    def test_an_old_list_tells_of_no_chats(self, aim):
        old = OLD_HINDSIGHT / "list.json"
        told = Told(hindsight.read, aim, old)
        assert told.entries == []
        assert set(told.left_out) == {hindsight.UNTOLD}
        named = Told(hindsight.read, replace(aim, theme="Work"), old)
        assert {theme for theme, _ in named.texts} == {"work"}
        assert {text for _, text in named.texts} > self.ALWAYS

    def test_what_recall_tells_of_a_fact_holds_for_the_list(self, aim, bob):
        files = [OLD_HINDSIGHT / name for name in ("list.json", "recall.json")]
        for paths in (files, files[::-1]):
            told = Told(hindsight.read, replace(aim, theme="Work"), *paths)
            assert {text for _, text in told.texts} >= self.ALWAYS
            whose = {
                (one.write.theme, one.write.subject)
                for one in told.entries
                if one.write.content == "Bob likes green tea."
            }
            assert whose == {("whatsapp-dm", bob)}
