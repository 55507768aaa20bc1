from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_kit import Run

from hermes_pgmemory import door
from hermes_pgmemory.codec import encode
from hermes_pgmemory.journal import Journal
from hermes_pgmemory.models import (
    Accepted,
    AddEntry,
    AgentKind,
    SeeAgent,
    Target,
    Theme,
)
from hermes_pgmemory.paths import RUNTIME_DIR_VARIABLE
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.migrate import shipped

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
Configure = Callable[..., None]


def entry(content: str) -> AddEntry:
    return AddEntry(theme=Theme("sales"), target=Target.MEMORY, content=content, at=NOW)


def fill(store: Store) -> None:
    seen = SeeAgent(theme=Theme("sales"), kind=AgentKind.THEME, at=NOW)
    writes = [seen, entry("one"), entry("two")]
    store.apply(
        [
            Accepted(epoch="6a1f0c1e-0000-4000-8000-000000000000", position=n, write=w)
            for n, w in enumerate(writes, 1)
        ],
        {},
    )


class TestEverythingDown:
    def test_each_part_says_so_for_itself(
        self,
        run: Run,
        configure: Configure,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ):
        monkeypatch.setenv(RUNTIME_DIR_VARIABLE, str(tmp_path / "run"))
        configure(dsn="host=127.0.0.1 port=1 user=u password=hunter2")
        ran = run("status", "--json")
        assert ran.status == 0
        states = {name: part["state"] for name, part in ran.data["parts"].items()}
        assert states == {
            "door": "problem",
            "provider": "off",
            "settings": "ok",
            "database": "unavailable",
            "schema": "unknown",
            "model": "unknown",
            "journal": "ok",
            "agents": "off",
            "embedded_server": "off",
            "local_model": "off",
        }
        assert ran.data["ok"] is False
        assert "hunter2" not in ran.out + ran.err

    def test_nothing_is_started_or_written(
        self, run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv(RUNTIME_DIR_VARIABLE, str(tmp_path / "run"))
        ran = run("status", "--json")
        assert ran.data["parts"]["database"]["state"] == "off"
        assert list(home.iterdir()) == []
        assert not (tmp_path / "run").exists()

    def test_broken_settings_do_not_hide_the_rest(self, run: Run, home: Path):
        (home / "config.yaml").write_text("plugins: [\n")
        door.install(home)
        parts = run("status", "--json").data["parts"]
        assert parts["door"]["state"] == "ok"
        assert parts["settings"]["state"] == "problem"
        assert "line" in parts["settings"]["detail"]
        assert parts["database"]["state"] == "unknown"

    def test_bad_settings_are_named_and_the_others_used(
        self, run: Run, configure: Configure, dsn: str
    ):
        configure(dsn=dsn, prefetch_limits=1)
        parts = run("status", "--json").data["parts"]
        assert "did you mean" in parts["settings"]["detail"]
        assert parts["database"]["state"] == "ok"

    def test_an_unusable_endpoint_is_the_models_problem(
        self, run: Run, configure: Configure, dsn: str
    ):
        configure(dsn=dsn, embed_url="ftp://nowhere")
        parts = run("status", "--json").data["parts"]
        assert parts["model"]["state"] == "problem"
        assert "embed_url" in parts["model"]["detail"]
        assert parts["database"]["state"] == "ok"


class TestDatabase:
    def test_themes_are_counted(
        self, run: Run, configure: Configure, store: Store, dsn: str
    ):
        fill(store)
        configure(dsn=dsn)
        ran = run("status", "--json")
        assert ran.data["themes"] == [
            {
                "theme": "sales",
                "kind": "theme",
                "entries": 2,
                "retired": 0,
                "turns": 0,
                "unembedded_entries": 2,
                "unembedded_turns": 0,
                "last_seen": NOW.isoformat(),
            }
        ]
        assert ran.data["parts"]["database"]["kind"] == "configured"
        assert ran.data["parts"]["schema"]["state"] == "ok"
        assert ran.data["parts"]["schema"]["version"] == shipped()[-1].version
        stats = run("stats", "--json").data
        for same in ("themes", "totals"):
            assert ran.data[same] == stats[same]

    def test_people_see_the_same(
        self, run: Run, configure: Configure, store: Store, dsn: str
    ):
        fill(store)
        configure(dsn=dsn)
        out = run("status").out
        [row] = [line.split() for line in out.splitlines() if " sales " in line]
        assert row == ["sales", "theme", *"20020", "2026-01-02", "03:04", "UTC"]
        assert "  all " in out

    def test_a_schema_that_was_never_made_names_the_command(
        self, run: Run, configure: Configure, new_database: Callable[..., str]
    ):
        configure(dsn=new_database())
        parts = run("status", "--json").data["parts"]
        assert parts["database"]["state"] == "ok"
        assert parts["schema"]["state"] == "problem"
        assert "hermes-pgvector migrate" in parts["schema"]["detail"]

    def test_another_model_than_the_databases_is_named(
        self, run: Run, configure: Configure, dsn: str
    ):
        configure(dsn=dsn)
        part = run("status", "--json").data["parts"]["model"]
        assert part["state"] == "problem"
        assert (part["database"], part["dimension"]) == ("test", 3)
        assert part["configured"] in part["detail"]


class TestJournal:
    def test_what_waits_and_since_when(self, run: Run, home: Path):
        journal = Journal.claim(home / "pgvector" / "journal", quota_bytes=1 << 20)
        journal.append([encode(entry("one")), encode(entry("two"))])
        part = run("status", "--json").data["parts"]["journal"]
        journal.close()
        assert part["pending"] == 2
        assert part["oldest_age_s"] < 60
        assert part["bytes"] > 0

    def test_dead_letters_are_a_problem(self, run: Run, home: Path):
        journal = Journal.claim(home / "pgvector" / "journal", quota_bytes=1 << 20)
        journal.append([encode(entry("one"))])
        journal.bury(journal.pending(1)[0], "refused")
        part = run("status", "--json").data["parts"]["journal"]
        journal.close()
        assert part["state"] == "problem"
        assert part["dead_letters"] == 1


class TestDoor:
    def test_a_stale_door_names_the_command(self, run: Run, home: Path):
        door.install(home)
        (home / "plugins" / "pgvector" / "plugin.yaml").unlink()
        part = run("status", "--json").data["parts"]["door"]
        assert part["state"] == "problem"
        assert "hermes-pgvector install" in part["detail"]

    def test_the_active_provider_is_shown(self, run: Run, home: Path):
        (home / "config.yaml").write_text("memory: {provider: honcho}\n")
        part = run("status", "--json").data["parts"]["provider"]
        assert (part["state"], part["active"]) == ("off", "honcho")


@pytest.mark.parametrize(
    ("no_color", "coloured"), [("", True), ("1", False)], ids=["colours", "plain"]
)
def test_on_a_terminal_it_has_colours_unless_they_are_unwanted(
    child: Run, no_color: str, *, coloured: bool
):
    code = "import pty; pty.spawn(['hermes-pgvector', 'status'])"
    ran = child("python", "-c", code, NO_COLOR=no_color, TERM="xterm-256color")
    assert ran.status == 0
    assert ("\x1b[" in ran.out) is coloured
    assert "embedded server" in ran.out
