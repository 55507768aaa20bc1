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


def switch_on(home: Path, *, force: bool = False, **settings: object) -> Path:
    """Do what `setup` does in files; return config.yaml."""
    door.install(home, force=force)
    activation.switch_on(HomePaths(home), settings)
    config = home / "config.yaml"
    assert settings_file.active_provider(config) == "pgvector"
    return config


def power_cut(*_: object) -> None:
    raise KeyboardInterrupt


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
            "restored": None,
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

    def test_what_the_operator_took_out_meanwhile_does_not_come_back(
        self, run: Run, home: Path
    ):
        config = switch_on(home, dsn="host=h")
        config.write_text(config.read_text() + "# a later remark\n")
        switch_on(home)
        assert activation.remembered_settings(HomePaths(home)) == {}
        settings_file.update(config, {"plugins.pgvector.dsn": ""})
        switch_on(home)
        assert activation.remembered_settings(HomePaths(home)) == {}

    def test_a_setup_that_dies_while_it_writes_forgets_nothing(
        self, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
    ):
        switch_on(home, dsn="host=h")
        run("uninstall")
        monkeypatch.setattr(settings_file, "update", power_cut)
        with pytest.raises(KeyboardInterrupt):
            switch_on(home, **activation.remembered_settings(HomePaths(home)))
        monkeypatch.undo()
        kept = activation.remembered_settings(HomePaths(home))
        assert kept == {"dsn": "host=h"}


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


class TestTakingOver:
    """Another plugin of our name stood in our place, and was in use."""

    TEXT = "memory: {provider: pgvector}  # the old one\n"

    @pytest.fixture
    def config(self, home: Path) -> Path:
        """The home's config.yaml, after a setup with --force."""
        old = home / "plugins" / "pgvector"
        old.mkdir(parents=True)
        (old / "__init__.py").write_text("# class X(MemoryProvider)")
        (home / "config.yaml").write_text(self.TEXT)
        return switch_on(home, force=True, dsn="host=h")

    @pytest.mark.parametrize("more", ["", "# a later remark\n"])
    def test_it_is_in_use_again_afterwards(
        self, run: Run, home: Path, config: Path, more: str
    ):
        config.write_text(config.read_text() + more)
        ran = run("uninstall", "--json", *(["--delete-data"] if more else []))
        assert ran.data["restored"] == str(home / "plugins" / "pgvector")
        assert settings_file.active_provider(config) == "pgvector"
        assert more or config.read_text() == self.TEXT
        init = home / "plugins" / "pgvector" / "__init__.py"
        assert init.read_text() == "# class X(MemoryProvider)"
        assert HomePaths(home).state.exists() == (not more)

    def test_there_and_back_twice_is_where_it_was(
        self, run: Run, home: Path, config: Path
    ):
        run("uninstall")
        kept = activation.remembered_settings(HomePaths(home))
        switch_on(home, force=True, **kept)
        assert settings_file.load_section(config) == {"dsn": "host=h"}
        run("uninstall")
        assert config.read_text() == self.TEXT

    def test_deleting_our_data_spares_it_where_it_cannot_go_back(
        self, run: Run, home: Path, config: Path
    ):
        (home / "plugins" / "pgvector" / "notes.txt").write_text("mine")
        HomePaths(home).journal.mkdir()
        ran = run("uninstall", "--delete-data", "--json")
        assert ran.data["restored"] is None
        assert str(HomePaths(home).journal) in ran.data["removed"]
        [left] = HomePaths(home).state.iterdir()
        assert (left / "__init__.py").read_text() == "# class X(MemoryProvider)"


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
