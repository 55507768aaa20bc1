from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_kit import Run

from hermes_pgmemory.cli import reembed
from hermes_pgmemory.cli.config import visible
from hermes_pgmemory.config import Settings
from hermes_pgmemory.settings_docs import field_docs
from hermes_pgmemory.settings_file import is_exposed


class TestExposed:
    """A password in a file that anybody may read is told."""

    @pytest.mark.parametrize(
        ("settings", "mode", "expected"),
        [
            ({"dsn": "host=h password=x"}, 0o644, True),
            ({"dsn": "postgresql://u:p/w@h/d"}, 0o644, True),
            ({"dsn_read": "host=h password = x"}, 0o644, True),
            ({"embed_url": "https://u:p@h/v1"}, 0o604, True),
            ({"dsn": "host=h password=x"}, 0o640, False),
            ({"dsn": "host=h", "embed_url": "http://h:80/v1"}, 0o644, False),
        ],
    )
    def test_whichever_setting_holds_it(
        self, home: Path, settings: dict[str, str], mode: int, expected: bool
    ):
        config = home / "config.yaml"
        config.touch(mode)
        config.chmod(mode)
        assert is_exposed(config, Settings.model_validate(settings)) is expected


def test_no_part_of_a_password_is_shown():
    for password in ("p@ss", "p/ss", "p:s@s/", "p?s"):
        url = f"http://user:{password}@host:1/v1"
        assert visible(Settings(embed_url=url))["embed_url"] == "http://***@host:1/v1"


class TestReembed:
    """Which endpoint the new vectors come from, and what it is told."""

    @pytest.fixture
    def asked(self, home: Path, configure: Callable[..., None]):
        def asked(*words: str) -> tuple[str, str]:
            configure(
                embed_url="https://old.example:8443/v1",
                embed_api_key_env="OLD_KEY",
                embed_protocol="openai",
            )
            parser = argparse.ArgumentParser()
            reembed.configure(parser)
            settings = reembed._settings(
                parser.parse_args(words, argparse.Namespace(home=home))
            )
            return settings.embed_api_key_env, settings.embed_protocol

        return asked

    @pytest.mark.parametrize(
        "url",
        [
            "https://new.example:8443/v1",
            "https://old.example:8444/v1",
            "http://old.example:8443/v1",
            "",
        ],
    )
    def test_another_server_is_not_told_the_key(self, asked, url: str):
        assert asked("--embed-url", url) == ("", "auto")

    @pytest.mark.parametrize(
        "words",
        [["--to", "m"], ["--embed-url", "https://me:pw@OLD.example:8443/api/embed"]],
    )
    def test_the_same_server_is(self, asked, words: list[str]):
        assert asked(*words) == ("OLD_KEY", "openai")

    def test_what_is_named_counts(self, asked):
        own = ("--embed-api-key-env", "NEW_KEY", "--embed-protocol", "ollama")
        assert asked("--embed-url", "http://new.example", *own) == ("NEW_KEY", "ollama")
        assert asked(*own) == ("NEW_KEY", "ollama")


class TestConfig:
    def test_it_shows_what_is_in_effect_and_what_was_set(
        self, run: Run, configure: Callable[..., None]
    ):
        configure(prefetch_limit=3, allowed_themes=["a", "b"])
        ran = run("config", "--json")
        assert ran.status == 0
        assert ran.data["settings"]["prefetch_limit"] == 3
        assert ran.data["settings"]["turn_min_chars"] == 40
        assert ran.data["set"] == ["allowed_themes", "prefetch_limit"]

    def test_people_see_one_line_a_setting(
        self, run: Run, configure: Callable[..., None]
    ):
        configure(allowed_themes=["a", "b"], sync_turns=False)
        lines = [line.split() for line in run("config").out.splitlines()]
        assert ["allowed_themes", "a,", "b", "set"] in lines
        assert ["sync_turns", "false", "set"] in lines
        assert ["prefetch_limit", "5", "default"] in lines

    @pytest.mark.parametrize("flags", [[], ["--json"]])
    def test_secrets_are_hidden(
        self,
        run: Run,
        configure: Callable[..., None],
        flags: list[str],
    ):
        configure(
            dsn="postgresql://u:hunter2@h/d",
            embed_url="https://me:hunter2@h/v1?api_key=hunter2&x=hunter2",
        )
        ran = run("config", *flags)
        assert "hunter2" not in ran.out + ran.err
        assert "(hidden)" in ran.out
        assert "https://***@h/v1?api_key=***&x=***" in ran.out

    def test_every_problem_is_named_and_it_fails(
        self, run: Run, configure: Callable[..., None]
    ):
        configure(prefetch_limits=3, turn_min_chars="many")
        ran = run("config")
        assert ran.status == 1
        assert "did you mean 'prefetch_limit'" in ran.err
        assert "plugins.pgvector.turn_min_chars" in ran.err
        assert len(ran.err.splitlines()) == 2

    def test_a_broken_file_is_one_line(self, run: Run, home: Path):
        (home / "config.yaml").write_text("a: [\n")
        ran = run("config")
        assert ran.status == 1
        assert len(ran.err.splitlines()) == 1
        assert str(home / "config.yaml") in ran.err

    def test_the_reference_has_a_row_for_every_setting(self, run: Run):
        rows = run("config", "--reference").out.splitlines()
        assert rows[1] == "|---|---|---|"
        assert [row.split("`")[1] for row in rows[2:]] == [
            doc.key for doc in field_docs()
        ]
        assert all(row.count("|") == 4 for row in rows)


class TestInstall:
    def test_it_names_what_it_wrote(self, run: Run, home: Path):
        ran = run("install", "--json")
        assert ran.status == 0
        files = {
            str(path)
            for path in (home / "plugins").rglob("*")
            if path.is_file() and path.parent.name != "__pycache__"
        }
        assert set(ran.data["written"]) == files
        assert files
        assert ran.data["door"] == str(home / "plugins" / "pgvector")

    def test_again_it_says_so(self, run: Run):
        run("install")
        assert "up to date" in run("install").out

    def test_another_plugin_in_its_place_is_one_clear_line(self, run: Run, home: Path):
        folder = home / "plugins" / "pgvector"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("# MemoryProvider")
        ran = run("install")
        assert ran.status == 1
        assert "--force" in ran.err
        assert len(ran.err.splitlines()) == 1
        assert run("install", "--force").status == 0


class TestUninstall:
    def test_it_removes_the_door_and_resets_the_provider_only(
        self, run: Run, home: Path
    ):
        text = (
            "# mine\nmemory:\n  provider: {}  # x\nplugins:\n  pgvector:\n    dsn: d\n"
        )
        (home / "config.yaml").write_text(text.format("pgvector"))
        run("install")
        (home / "pgvector").mkdir(exist_ok=True)
        ran = run("uninstall")
        assert ran.status == 0
        assert not (home / "plugins" / "pgvector").exists()
        assert (home / "config.yaml").read_text() == text.format("''")
        assert (home / "pgvector").is_dir()
        assert "journal" in ran.err

    def test_another_active_provider_is_left_alone(self, run: Run, home: Path):
        (home / "config.yaml").write_text("memory: {provider: honcho}\n")
        run("install")
        assert run("uninstall", "--json").data["provider_reset"] is False
        assert (home / "config.yaml").read_text() == "memory: {provider: honcho}\n"

    def test_with_nothing_there_it_does_nothing(self, run: Run):
        ran = run("uninstall")
        assert (ran.status, ran.out) == (0, "nothing to remove\n")
