"""Out of one database and into another."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from moving_kit import ALICE, DM, HOSTILE, LONG, START, WORK, turn

from hermes_pgmemory.cli import import_
from hermes_pgmemory.models import AddEntry, AgentKind, SeeAgent, Target
from hermes_pgmemory.moving import coming_in
from hermes_pgmemory.moving.sources import SOURCES, jsonl
from hermes_pgmemory.moving.values import Aim


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def kept(database) -> dict:
    rows = database.rows()
    return {table: len(found) for table, found in rows.items()}


class TestOwnFormat:
    def test_everything_arrives_and_is_recalled_alike(self, new, run, tmp_path):
        old, moved = new(), new()
        old.fill(
            AddEntry(theme=WORK, target=Target.MEMORY, content=LONG, at=START),
            turn("by a machine", ordinal=77_777),
            turn("by a machine", ordinal=88_888),
        )
        file, key = tmp_path / "all.jsonl", tmp_path / "key"
        words = ("--private", "--vectors", "--key-file", key, file)
        assert run(old, "export", *words).status == 0
        assert file.stat().st_mode & 0o777 == key.stat().st_mode & 0o777 == 0o600
        ran = run(
            moved, "import", "jsonl", file, "--key-file", key, "--execute", "--json"
        )
        assert ran.status == 0, ran.err
        assert moved.rows() == old.rows()
        assert moved.key == old.key
        assert ran.data["new"] == sum(kept(old).values())
        for vector in ([1.0, 0.0, 0.0], [0.1, 0.2, 1.0]):
            for question in ("wörter tea delimiter", "who likes emoji"):
                assert moved.answers(question, vector) == old.answers(question, vector)
        again = run(
            moved, "import", "jsonl", file, "--key-file", key, "--execute", "--json"
        )
        assert (again.data["new"], again.data["there"]) == (0, ran.data["new"])
        assert moved.rows() == old.rows()

    def test_private_rows_stay_at_home_unless_they_are_asked_for(
        self, new, run, tmp_path
    ):
        old, moved = new(), new()
        old.fill()
        # As an adopted database holds it: some contact's, and nobody knows whose.
        old.apply(turn("said by somebody in private", theme=DM, session_id="x"))
        file = tmp_path / "some.jsonl"
        run(old, "export", file)
        assert "somebody" not in file.read_text()
        assert run(old, "export", "--theme", DM, tmp_path / "none").status == 2
        told = lines_of(file)
        assert "Alice" not in file.read_text()
        assert ALICE not in file.read_text()
        assert old.key not in file.read_text()
        assert told[0]["format"] == "hermes-pgmemory"
        assert told[-1] == {"row": "end", "rows": len(told) - 2}
        assert not any("embedding" in row for row in told)
        run(moved, "import", "jsonl", file, "--execute")
        whole, arrived = old.rows(), moved.rows()
        assert {name: len(rows) for name, rows in arrived.items()} == {
            "memory_entries": len(whole["memory_entries"]) - 1,
            "conversations": len(whole["conversations"]) - 2,
            "memory_agent_edges": len(whole["memory_agent_edges"]) - 1,
            "memory_agents": len(whole["memory_agents"]),
        }

    def test_contacts_are_not_taken_for_others_under_another_key(
        self, new, run, tmp_path
    ):
        old, moved = new(), new()
        old.fill()
        file, key = tmp_path / "all.jsonl", tmp_path / "key"
        run(old, "export", "--private", "--key-file", key, file)
        first = run(moved, "import", "jsonl", file, "--execute", "--json").data
        assert first["reasons"] == {jsonl.OTHERS_KEY: 3}
        assert moved.query(
            "SELECT count(*) FROM memory_entries WHERE subject <> ''"
        ) == [0]
        words = ("import", "jsonl", file, "--key-file", key, "--json")
        assert run(moved, *words).data["new"] == 3
        assert moved.key != old.key
        assert run(moved, *words, "--execute").data["new"] == 3
        assert moved.key == old.key
        assert moved.rows()["conversations"] == [
            (*row[:-2], None, None) for row in old.rows()["conversations"]
        ]
        # A database with private rows of its own keeps its key.
        moved.query(
            "UPDATE memory_settings SET value = to_jsonb(repeat('5e', 32))"
            " WHERE key = 'subject_key'"
        )
        refused = run(moved, *words, "--execute")
        assert refused.status == 2
        assert "private rows of its own" in refused.err

    def test_a_key_is_not_changed_below_agents_that_know_it(self, new, run, tmp_path):
        old, used = new(), new()
        old.fill()
        file, key = tmp_path / "all.jsonl", tmp_path / "key"
        run(old, "export", "--private", "--key-file", key, file)
        # Whatever it was: it keeps what it knows, and may write of contacts next.
        used.apply(SeeAgent(theme=WORK, kind=AgentKind.THEME, at=START))
        before = used.key
        words = ("import", "jsonl", file, "--key-file", key, "--execute")
        refused = run(used, *words)
        assert (refused.status, used.key, used.entries()) == (2, before, [])
        assert "no agent has used" in refused.err

    def test_a_rehearsal_counts_and_keeps_nothing(self, new, run, tmp_path):
        old, moved = new(), new()
        old.fill()
        file = tmp_path / "all.jsonl"
        run(old, "export", file)
        moved.apply(
            AddEntry(
                theme=WORK,
                target=Target.MEMORY,
                content=HOSTILE[0],
                at=old.query("SELECT min(created_at) FROM memory_entries")[0],
            )
        )
        before = moved.rows()
        told = run(moved, "import", "jsonl", file, "--json").data
        assert moved.rows() == before
        assert moved.query("SELECT count(*) FROM memory_maintenance_log") == [0]
        assert told["themes"]["work"]["entries"] == {
            "new": len(HOSTILE) - 1,
            "there": 1,
            "skipped": 0,
        }
        done = run(moved, "import", "jsonl", file, "--execute", "--json").data
        assert {**done, "executed": False} == told
        log = moved.query(
            "SELECT target_table, affected_count, details ->> 'finished'"
            " FROM memory_maintenance_log ORDER BY 1"
        )
        assert log == [
            (table, rows - len(before[table]), "true")
            for table, rows in sorted(kept(moved).items())
        ]

    def test_an_import_that_was_killed_goes_on(self, new, run, tmp_path, monkeypatch):
        old, moved = new(), new()
        old.fill()
        file = tmp_path / "all.jsonl"
        run(old, "export", file)
        monkeypatch.setattr(coming_in, "BATCH_ROWS", 4)
        aim = Aim(home=moved.home, key=moved.key)

        def killed():
            yield from islice(jsonl.read([file], aim), 10)
            raise KeyboardInterrupt

        arrival = coming_in.Arrival(
            moved.store, source="jsonl", execute=True, advance=lambda _: None
        )
        with pytest.raises(KeyboardInterrupt):
            arrival.run(killed())
        assert sum(kept(moved).values()) == 8
        ran = run(moved, "import", "jsonl", file, "--execute", "--json").data
        assert ran["there"] == 8
        assert ran["new"] + 8 == len(lines_of(file)) - 2

    def test_damage_is_told_and_the_rest_arrives(self, new, run, tmp_path):
        old, moved = new(), new()
        old.fill()
        file = tmp_path / "all.jsonl"
        run(old, "export", file)
        lines = file.read_text("utf-8").split("\n")
        lines[3] = lines[3][:40]
        lines[4] = lines[4].replace('"content":"', '"content":"\\u0000')
        lines[5] = lines[5].replace('"content":"', '"content":"\udcff')
        text = "\n".join(lines[:-3]) + "\n"
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        ran = run(moved, "import", "jsonl", file, "--execute", "--json")
        assert ran.status == 1
        reasons = ran.data["reasons"]
        assert (reasons.pop(jsonl.DAMAGED), reasons.pop(jsonl.CUT_OFF)) == (1, 1)
        assert [why.partition(":")[0] for why in reasons] == ["refused", "refused"]
        assert ran.data["new"] == len(lines) - 7
        file.write_text("no header\n")
        assert run(moved, "import", "jsonl", file).status == 2
        file.write_text('{"format":"hermes-pgmemory","version":2}\n')
        assert "upgrade" in run(moved, "import", "jsonl", file).err

    def test_vectors_of_another_model_stay_out(self, new, run, tmp_path):
        old, moved = new(), new()
        old.fill()
        old.query("UPDATE memory_models SET name = 'other'")
        file = tmp_path / "all.jsonl"
        run(old, "export", "--vectors", file)
        assert any("embedding" in row for row in lines_of(file))
        assert run(moved, "import", "jsonl", file, "--execute").status == 0
        assert moved.query("SELECT count(embedding) FROM conversations") == [0]
        assert moved.query("SELECT count(embedding) FROM memory_entries") == [0]

    def test_what_was_forgotten_does_not_come_back(self, new, run, tmp_path):
        old, moved = new(), new()
        old.fill()
        file = tmp_path / "all.jsonl"
        run(old, "export", "--theme", "work", file)
        moved.query("INSERT INTO memory_forgotten VALUES ('work', '')")
        ran = run(moved, "import", "jsonl", file, "--execute", "--json")
        assert ran.data["new"] == 0
        assert ran.data["reasons"] == {coming_in.FORGOTTEN: len(lines_of(file)) - 2}

    def test_it_goes_through_a_pipe(self, new, run, tmp_path):
        old = new()
        old.fill()
        run(old, "export", "--theme", "work", tmp_path / "file")
        piped = run(old, "export", "--theme", "work", "-").out
        assert piped.split("\n")[1:] == (tmp_path / "file").read_text().split("\n")[1:]
        assert {json.loads(row)["theme"] for row in piped.split("\n")[1:-2]} == {"work"}
        assert run(old, "export", "-", "--json").status == 2
        unknown = run(old, "export", "--theme", "wrok", tmp_path / "none")
        assert (unknown.status, (tmp_path / "none").exists()) == (2, False)

    def test_secrets_do_not_travel(self, new, run, tmp_path):
        old, moved = new(), new()
        secret = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2
        old.apply(
            AddEntry(
                theme=WORK,
                target=Target.MEMORY,
                content=f"the key is {secret}",
                at=old.query("SELECT now()")[0],
            ),
            vectors={0: [1, 0, 0]},
        )
        file = tmp_path / "all.jsonl"
        run(old, "export", "--vectors", file)
        run(moved, "import", "jsonl", file, "--execute")
        [(content, vector)] = moved.query(
            "SELECT content, embedding FROM memory_entries"
        )
        assert content.startswith("the key is [redacted")
        assert vector is None

    def test_another_database_is_read_where_it_is(self, new, run, monkeypatch):
        old, moved = new(), new()
        old.fill()
        old.query(
            "UPDATE memory_settings SET value = (SELECT to_jsonb(%s::text))"
            " WHERE key = 'subject_key'",
            moved.key,
        )
        monkeypatch.setenv("OLD_DSN", old.dsn)
        words = ("import", "database", "--from-dsn-env", "OLD_DSN", "--json")
        rehearsed = run(moved, *words).data
        assert run(moved, *words, "--execute").data["new"] == rehearsed["new"]
        assert kept(moved) == kept(old)
        assert run(moved, *words).data["new"] == 0


def test_the_help_names_every_source():
    assert tuple(source.name for source in SOURCES) == import_.NAMES
