"""The setup, for real: the local model, real databases, the embedded server."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli_kit import Run
from psycopg.conninfo import make_conninfo

from hermes_pgmemory import setup
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.settings_file import active_provider, load_section
from hermes_pgmemory.setup import Outcome
from hermes_pgmemory.store import Store

Configure = Callable[..., None]
NewDatabase = Callable[..., str]
DOWN = "host=127.0.0.1 port=1 user=u password=hunter2"


def outcomes(ran: object) -> dict[str, str]:
    return {step["step"]: step["outcome"] for step in ran.data["steps"]}  # type: ignore[attr-defined]


class TestOwnDatabase:
    def test_it_does_everything_and_then_activates(
        self, run: Run, home: Path, new_database: NewDatabase
    ):
        dsn = make_conninfo(new_database(), password="hunter2")
        (home / "config.yaml").write_text("# mine\nmodel: {default: x}  # y\n")
        (home / "config.yaml").chmod(0o644)
        ran = run("setup", "--dsn", dsn, "--json")
        assert ran.status == 0, ran.err
        assert ran.data["ok"] is True
        assert "everybody may read the password" in ran.data["steps"][-1]["detail"]
        config = home / "config.yaml"
        assert config.read_text().startswith("# mine\nmodel: {default: x}  # y\n")
        assert active_provider(config) == "pgvector"
        assert load_section(config) == {"dsn": dsn}
        assert (home / "plugins" / "pgvector" / "__init__.py").exists()
        with closing(Store(dsn)) as store:
            model = store.verify(timeout_s=5).model
            assert store.counts(timeout_s=5) == []
        assert model is not None
        assert model.dimension == 384
        assert not HomePaths(home).server.exists()

    def test_each_step_is_told_in_one_line(
        self, run: Run, configure: Configure, new_database: NewDatabase
    ):
        configure(dsn=new_database())
        ran = run("setup")
        names = [line.split()[1] for line in ran.err.splitlines()]
        assert names == [
            "settings:",
            "door:",
            "database:",
            "model:",
            "schema:",
            "check:",
            "config:",
        ]
        assert all(line.startswith("✓ ") for line in ran.err.splitlines())

    def test_a_second_time_nothing_changes(
        self, run: Run, home: Path, configure: Configure, new_database: NewDatabase
    ):
        configure(dsn=new_database())
        run("setup")
        inode = (home / "config.yaml").stat().st_ino
        ran = run("setup", "--json")
        assert ran.status == 0
        assert set(outcomes(ran).values()) == {"unchanged"}
        assert (home / "config.yaml").stat().st_ino == inode

    def test_the_connection_string_can_be_read_from_standard_input(
        self,
        run: Run,
        home: Path,
        new_database: NewDatabase,
        monkeypatch: pytest.MonkeyPatch,
    ):
        dsn = new_database()
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{dsn}\n"))
        assert run("setup", "--dsn", "-").status == 0
        assert load_section(home / "config.yaml") == {"dsn": dsn}


class TestFailing:
    def test_a_wrong_dsn_stops_before_anything_is_activated(
        self, run: Run, home: Path, new_database: NewDatabase
    ):
        ran = run("setup", "--dsn", DOWN, "--json")
        assert ran.status == 3
        assert outcomes(ran) == {
            "settings": "unchanged",
            "door": "done",
            "database": "unchanged",
            "model": "unchanged",
            "schema": "failed",
            "check": "skipped",
            "config": "skipped",
        }
        assert not (home / "config.yaml").exists()
        assert "hunter2" not in ran.out + ran.err
        again = run("setup", "--dsn", new_database(), "--json")
        assert again.status == 0
        assert outcomes(again)["door"] == "unchanged"

    def test_an_endpoint_that_does_not_answer_is_named(
        self, run: Run, home: Path, configure: Configure, dsn: str
    ):
        configure(dsn=dsn)
        before = (home / "config.yaml").read_text()
        ran = run("setup", "--embed-url", "http://127.0.0.1:1/v1", "--json")
        assert ran.status == 3
        assert outcomes(ran)["model"] == "failed"
        assert "127.0.0.1" in ran.data["error"]
        assert (home / "config.yaml").read_text() == before

    def test_a_database_of_another_model_is_refused_with_both_named(
        self, run: Run, configure: Configure, dsn: str
    ):
        configure(dsn=dsn)
        ran = run("setup", "--json")
        assert ran.status == 1
        assert outcomes(ran)["check"] == "failed"
        assert "come from test" in ran.data["error"]

    def test_bad_settings_are_named_before_anything_happens(
        self, run: Run, home: Path, configure: Configure
    ):
        configure(prefetch_limits=1)
        ran = run("setup", "--json")
        assert ran.status == 1
        assert "did you mean" in ran.data["error"]
        assert not (home / "plugins").exists()

    def test_another_plugin_in_our_place_stops_it(
        self, run: Run, home: Path, configure: Configure
    ):
        configure(dsn=DOWN)
        folder = home / "plugins" / "pgvector"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("# MemoryProvider")
        ran = run("setup", "--json")
        assert ran.status == 1
        assert outcomes(ran)["door"] == "failed"
        assert "--force" in ran.data["error"]


class TestEmbedded:
    def test_a_newcomer_needs_no_server_and_no_key(self, run: Run, home: Path):
        ran = run("setup", "--json")
        assert ran.status == 0, ran.err
        assert "embedded PostgreSQL" in ran.out
        assert load_section(home / "config.yaml") == {}
        parts = run("status", "--json").data
        assert parts["ok"] is True
        assert parts["parts"]["database"]["kind"] == "embedded"
        status = run("server", "status", "--json").data
        assert status["postgresql"]["running"] is True
        stopped = run("server", "stop", "--json").data
        assert stopped["stopped"] == ["postgresql", "model"]
        assert stopped["postgresql"]["running"] is False
        assert run("server", "stop", "--json").data["stopped"] == []
        assert run("server", "start", "--json").data["postgresql"]["running"] is True

    def test_uninstall_and_setup_again_find_the_data_where_it_was(
        self, run: Run, home: Path, configure: Configure, new_database: NewDatabase
    ):
        configure(dsn=new_database())
        run("setup")
        assert run("uninstall").status == 0
        assert active_provider(home / "config.yaml") == ""
        ran = run("setup", "--json")
        assert outcomes(ran)["schema"] == "unchanged"
        assert active_provider(home / "config.yaml") == "pgvector"


class TestFromTheHost:
    def test_it_tells_each_step_and_how_to_go_on(
        self,
        home: Path,
        configure: Configure,
        new_database: NewDatabase,
        capsys: pytest.CaptureFixture[str],
    ):
        configure(dsn=new_database())
        setup.run_for_people(home)
        out = capsys.readouterr().out
        assert "✓ config: memory.provider is pgvector" in out
        assert "Start a new session" in out

    def test_it_says_what_to_change(
        self, home: Path, configure: Configure, capsys: pytest.CaptureFixture[str]
    ):
        configure(prefetch_limits=1)
        setup.run_for_people(home)
        out = capsys.readouterr().out
        assert "✗ settings: plugins.pgvector.prefetch_limits" in out
        assert "Change what is named above" in out


def test_a_failed_step_keeps_its_reason(home: Path, configure: Configure):
    configure(prefetch_limits=1)
    report = setup.run(home)
    assert report.error is not None
    assert report.steps[0].outcome is Outcome.FAILED
    assert report.steps[0].detail == str(report.error)
