"""Uninstall: config.yaml is what it was, byte for byte wherever that can be."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_kit import Run

from hermes_pgmemory import activation, door, settings_file
from hermes_pgmemory.paths import HomePaths

CONFIGS = {
    "nothing of memory": "# mine\nmodel: {default: x}   # y\n",
    "an empty provider": "memory:  # m\n    provider: ''  # none\n    a: 1\n",
    "another provider": "memory: {a: 1, provider: honcho}  # mine\nb: 2",
    "other plugins": "plugins:\n  # allowed\n  enabled:\n  - weather  # w\n  - x\n",
    "an empty list": "plugins: {enabled: []}\nmemory:\n  provider:\n",
    "settings of ours": "plugins:\n  pgvector:\n    dsn: host=h  # here\n",
    "another system's line ends": "memory:\r\n  provider: ''\r\n# end\r\n",
    "a byte order mark": "\ufeffmemory:\n  provider: honcho\n",
    "odd line breaks": 'memory:\n  note: "a\u2028b"\n',
    "an empty file": "",
}


def switch_on(home: Path, **settings: object) -> Path:
    """Do what `setup` does in files; return config.yaml."""
    door.install(home)
    activation.switch_on(HomePaths(home), settings)
    config = home / "config.yaml"
    assert settings_file.active_provider(config) == "pgvector"
    return config


class TestUntouchedSinceSetup:
    @pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS.keys())
    @pytest.mark.parametrize("times", [1, 2])
    @pytest.mark.parametrize("settings", [{}, {"dsn": "host=h2", "embed_url": "u"}])
    def test_every_byte_is_as_before(
        self, run: Run, home: Path, text: str, times: int, settings: dict[str, str]
    ):
        config = home / "config.yaml"
        config.write_bytes(text.encode())
        for _ in range(times):
            switch_on(home, **settings)
        ran = run("uninstall", "--json")
        assert ran.data["provider_reset"] is True
        assert config.read_bytes() == text.encode()
        assert not (home / "plugins" / "pgvector").exists()
        assert run("uninstall", "--json").data == {
            "removed": [],
            "provider_reset": False,
        }
        assert config.read_bytes() == text.encode()

    def test_a_file_that_was_not_there_is_not_there(self, run: Run, home: Path):
        config = switch_on(home)
        assert run("uninstall").status == 0
        assert not config.exists()

    def test_mode_and_link_stay(self, run: Run, home: Path, tmp_path: Path):
        real = tmp_path / "real.yaml"
        real.write_text("a: 1\n")
        real.chmod(0o640)
        (home / "config.yaml").symlink_to(real)
        switch_on(home)
        run("uninstall")
        assert (home / "config.yaml").is_symlink()
        assert real.read_text() == "a: 1\n"
        assert real.stat().st_mode & 0o777 == 0o640

    def test_the_settings_it_wrote_are_there_for_the_next_setup(
        self, run: Run, home: Path
    ):
        switch_on(home, dsn="host=h password=hunter2")
        run("uninstall")
        kept = activation.remembered_settings(HomePaths(home))
        assert kept == {"dsn": "host=h password=hunter2"}
        note = HomePaths(home).state / activation.NOTE_FILE
        assert note.stat().st_mode & 0o777 == 0o600


class TestEditedSinceSetup:
    def test_only_our_own_words_go(self, run: Run, home: Path):
        config = home / "config.yaml"
        config.write_text("memory:\n  provider: honcho  # mine\n")
        switch_on(home, dsn="host=h")
        with config.open("a") as out:
            out.write("# a later remark\nmodel: {default: x}\n")
        settings_file.update(config, {"plugins.enabled": ("pgvector", "weather")})
        assert run("uninstall", "--json").data["provider_reset"] is True
        assert config.read_text() == (
            "memory:\n"
            "  provider: honcho  # mine\n"
            "plugins:\n"
            "  pgvector:\n"
            "    dsn: host=h\n"
            "  enabled: [weather]\n"
            "# a later remark\n"
            "model: {default: x}\n"
        )

    def test_another_provider_chosen_since_stays(self, run: Run, home: Path):
        config = switch_on(home)
        settings_file.update(config, {"memory.provider": "honcho"})
        assert run("uninstall", "--json").data["provider_reset"] is False
        assert settings_file.active_provider(config) == "honcho"
        assert settings_file.enabled_plugins(config) == []

    def test_a_setup_repeated_after_an_edit_still_knows_the_provider(
        self, run: Run, home: Path
    ):
        config = home / "config.yaml"
        config.write_text("memory:\n  provider: honcho\n")
        switch_on(home)
        config.write_text(config.read_text() + "# a later remark\n")
        switch_on(home)
        run("uninstall")
        assert settings_file.active_provider(config) == "honcho"
        assert config.read_text().endswith("# a later remark\n")

    @pytest.mark.parametrize("note", ["", "{", '{"undo": 1}', '{"after": "x"}'])
    def test_a_lost_note_costs_the_bytes_only(self, run: Run, home: Path, note: str):
        config = switch_on(home)
        (HomePaths(home).state / activation.NOTE_FILE).write_text(note)
        assert run("uninstall").status == 0
        assert settings_file.active_provider(config) == ""


class TestData:
    def test_it_stays(self, run: Run, home: Path):
        switch_on(home)
        (home / "memories").mkdir()
        (home / "memories" / "MEMORY.md").write_text("mine")
        journal = HomePaths(home).journal / "1.db"
        journal.parent.mkdir()
        journal.write_text("accepted")
        assert "stays: it holds" in run("uninstall").err
        assert journal.read_text() == "accepted"
        assert (home / "memories" / "MEMORY.md").read_text() == "mine"

    def test_it_goes_when_asked_and_the_memory_files_do_not(self, run: Run, home: Path):
        switch_on(home)
        (home / "memories").mkdir()
        (home / "memories" / "MEMORY.md").write_text("mine")
        HomePaths(home).journal.mkdir()
        ran = run("uninstall", "--delete-data", "--json")
        assert str(HomePaths(home).state) in ran.data["removed"]
        assert not HomePaths(home).state.exists()
        assert (home / "memories" / "MEMORY.md").read_text() == "mine"
