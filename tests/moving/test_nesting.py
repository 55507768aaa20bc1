"""Rows of our own whose provenance nests without measure."""

from __future__ import annotations

import pytest
from moving_kit import START

from hermes_pgmemory.models import AddEntry, Target, Theme


@pytest.mark.parametrize("command", ["export", "history"])
def test_provenance_that_nests_without_measure_is_told_of_and_not_left_out(
    new, run, tmp_path, command
):
    database = new()
    entry = AddEntry(theme=Theme("work"), target=Target.MEMORY, content="x", at=START)
    database.apply(entry)
    database.query(
        "INSERT INTO memory_entry_history (agent_identity, entry_id, target,"
        " change, content, since, at, metadata) SELECT agent_identity, id, target,"
        " 'replaced', content, now(), now(), '{}' FROM memory_entries"
    )
    words = {"export": (tmp_path / "out",), "history": ("--theme", "work")}[command]
    table = {"export": "memory_entries", "history": "memory_entry_history"}[command]
    for depth, status in ((98, 0), (99, 2), (3000, 2)):
        deep = f'{{"a": {"[" * depth}{"]" * depth}}}'
        database.query(f"UPDATE {table} SET metadata = %s", deep)
        ran = run(database, command, *words)
        assert ran.status == status, ran.err
        assert ("nests more than 99 levels deep" in ran.err) == bool(status)
        assert f"is {len(deep)};" in ran.err or not status
        assert "[[" not in ran.err


def test_what_an_export_can_read_an_import_can_take(new, run, tmp_path):
    old, moved = new(), new()
    entry = AddEntry(theme=Theme("work"), target=Target.MEMORY, content="x", at=START)
    old.apply(entry)
    deep = f'{{"a": {"[" * 98}{"]" * 98}}}'
    old.query("UPDATE memory_entries SET metadata = %s", deep)
    assert run(old, "export", tmp_path / "out").status == 0
    assert run(moved, "import", "jsonl", tmp_path / "out", "--execute").status == 0
    assert moved.entries() == old.entries()
