from __future__ import annotations

import json
import os
from pathlib import Path

import dotenv
import pytest

from hermes_pgmemory.config import (
    ENVIRONMENT,
    UNUSABLE_DSN,
    Settings,
    parse,
)
from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.settings_docs import field_docs
from hermes_pgmemory.settings_file import active_provider, load_dotenv, load_section


@pytest.fixture(autouse=True)
def no_outside_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HERMES_MANAGED_DIR", str(tmp_path / "nowhere"))
    monkeypatch.delenv("PGMEMORY_DSN", raising=False)
    monkeypatch.delenv("PGMEMORY_DSN_READ", raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "home" / "config.yaml"


@pytest.fixture(autouse=True)
def home(config: Path) -> Path:
    config.parent.mkdir()
    return config.parent


class TestReading:
    def test_a_missing_file_is_an_empty_section(self, config: Path):
        assert load_section(config) == {}
        assert active_provider(config) == ""

    @pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "plugins:\n"])
    def test_a_file_without_us_is_an_empty_section(self, config: Path, text: str):
        config.write_text(text)
        assert load_section(config) == {}

    def test_values_have_their_types(self, config: Path):
        config.write_text(
            "plugins:\n  pgvector:\n    dsn:\n    prefetch_limit: 3\n"
            "    min_similarity: 0.5\n    sync_turns: false\n"
            "    allowed_themes: [a, b]\n    identity_aliases: {x: y}\n"
        )
        assert load_section(config) == {
            "dsn": None,
            "prefetch_limit": 3,
            "min_similarity": 0.5,
            "sync_turns": False,
            "allowed_themes": ["a", "b"],
            "identity_aliases": {"x": "y"},
        }

    def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(self, config: Path):
        config.write_bytes(
            "\ufeffplugins:\r\n  pgvector:\r\n    embed_model: x\r\n".encode()
        )
        assert load_section(config) == {"embed_model": "x"}

    @pytest.mark.parametrize("word", ["no", "off", "false", "No"])
    def test_every_word_for_no_turns_a_switch_off(self, config: Path, word: str):
        config.write_text(f"plugins: {{pgvector: {{sync_turns: {word}}}}}\n")
        assert parse(load_section(config)).checked().sync_turns is False

    def test_of_two_equal_keys_the_last_one_counts_as_in_the_host(self, config: Path):
        config.write_text("plugins:\n  pgvector:\n    dsn: a\n    dsn: b\n")
        assert load_section(config) == {"dsn": "b"}

    def test_other_sections_may_hold_what_we_cannot_read(self, config: Path):
        config.write_text(
            "a: 1\na: 2\nx: !python/name:os.system foo\n"
            "plugins:\n  pgvector:\n    dsn: d\n"
        )
        assert load_section(config) == {"dsn": "d"}

    def test_anchors_and_merge_keys_are_followed(self, config: Path):
        config.write_text(
            "base: &base {dsn: d, embed_url: u}\n"
            "plugins:\n  pgvector:\n    <<: *base\n    embed_url: v\n"
        )
        assert load_section(config) == {"dsn": "d", "embed_url": "v"}

    def test_the_active_provider_is_found(self, config: Path):
        config.write_text("memory:\n  provider: pgvector\n")
        assert active_provider(config) == "pgvector"

    def test_what_a_caller_does_to_the_section_stays_with_the_caller(
        self, config: Path
    ):
        config.write_text("plugins: {pgvector: {dsn: d}}\n")
        load_section(config)["dsn"] = "changed"
        assert load_section(config) == {"dsn": "d"}


class TestWhatIsWrong:
    """A setting that holds something back never lets it go by mistake."""

    @pytest.mark.parametrize(
        ("text", "key", "strict"),
        [
            ("allowed_themes: {marketing: yes}", "allowed_themes", ("default",)),
            ("allowed_themes: [[marketing]]", "allowed_themes", ("default",)),
            ("allowed_theme: [marketing]", "allowed_themes", ("default",)),
            ("sync_turns: flase", "sync_turns", False),
            ("sync-turns: false", "sync_turns", False),
            ("bulk_sync_on_init: nope", "bulk_sync_on_init", False),
            ("write_contexts: {cron: 1}", "write_contexts", ()),
            ("conversation_embed_policy: nothing", "conversation_embed_policy", "none"),
        ],
    )
    def test_it_is_taken_for_the_strictest(
        self, config: Path, text: str, key: str, strict: object
    ):
        config.write_text(f"plugins: {{pgvector: {{{text}}}}}\n")
        parsed = parse(load_section(config))
        assert getattr(parsed.settings, key) == strict
        assert len(parsed.problems) == 1

    def test_a_key_spelled_right_counts_beside_one_spelled_wrong(self):
        parsed = parse({"sync_turn": False, "sync_turns": True})
        assert parsed.settings.sync_turns is True
        assert list(parsed.problems) == ["plugins.pgvector.sync_turn"]

    @pytest.mark.parametrize("name", ["config.yaml", "pgvector/config.json"])
    def test_a_file_that_nests_without_measure_is_told_of(
        self, config: Path, name: str
    ):
        file = config.parent / name
        file.parent.mkdir(exist_ok=True)
        nested = "[" * 5_000 + "]" * 5_000
        file.write_text(f'{{"plugins": {{"x": {nested}}}}}')
        with pytest.raises(ConfigError, match="nests") as told:
            load_section(config)
        assert str(file) in str(told.value)

    @pytest.mark.parametrize("raw", [{"dns": "host=h"}, {"dsn": ["host=h"]}])
    def test_without_a_usable_dsn_nothing_is_stored_elsewhere(self, raw: dict):
        parsed = parse(raw)
        assert parsed.settings.dsn.get_secret_value() == UNUSABLE_DSN
        assert "nothing is stored" in str(parsed.problems)

    def test_any_other_has_its_default(self):
        parsed = parse({"prefetch_limit": "many", "prefetch_limits": 3})
        assert parsed.settings == Settings()

    def test_numbers_are_names(self, config: Path):
        config.write_text(
            "plugins:\n  pgvector:\n    allowed_themes: [2026, marketing, 1.5]\n"
            "    identity_aliases: {15550100: 7}\n"
        )
        settings = parse(load_section(config)).checked()
        assert settings.allowed_themes == ("2026", "marketing", "1.5")
        assert settings.identity_aliases == {"15550100": "7"}


class TestEnvironment:
    def test_references_are_expanded_everywhere(
        self, config: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("SECRET_PW", "s3cret")
        config.write_text(
            "plugins:\n  pgvector:\n    dsn: postgresql://u:${SECRET_PW}@h/d\n"
            "    allowed_themes: ['${SECRET_PW}', x]\n"
        )
        assert load_section(config) == {
            "dsn": "postgresql://u:s3cret@h/d",
            "allowed_themes": ["s3cret", "x"],
        }

    def test_an_unknown_variable_stays_as_written(self, config: Path):
        config.write_text("plugins: {pgvector: {dsn: '${NO_SUCH_VARIABLE_42}'}}\n")
        assert load_section(config) == {"dsn": "${NO_SUCH_VARIABLE_42}"}

    def test_a_variable_that_changes_is_seen_at_once(
        self, config: Path, monkeypatch: pytest.MonkeyPatch
    ):
        config.write_text("plugins: {pgvector: {dsn: '${WHERE}'}}\n")
        for value in ("one", "two"):
            monkeypatch.setenv("WHERE", value)
            assert load_section(config) == {"dsn": value}

    @pytest.mark.parametrize(
        ("key", "variable"),
        [("dsn", "PGMEMORY_DSN"), ("dsn_read", "PGMEMORY_DSN_READ")],
    )
    def test_a_variable_stands_in_for_a_missing_connection_string_only(
        self, config: Path, monkeypatch: pytest.MonkeyPatch, key: str, variable: str
    ):
        monkeypatch.setenv(variable, "from-env")
        assert load_section(config) == {key: "from-env"}
        config.write_text(f"plugins: {{pgvector: {{{key}: from-file}}}}\n")
        assert load_section(config) == {key: "from-file"}

    def test_every_secret_has_a_variable_of_its_own(self):
        secrets = [doc.key for doc in field_docs() if doc.kind == "secret"]
        assert list(ENVIRONMENT) == secrets
        assert len(set(ENVIRONMENT.values())) == len(secrets)


class TestLayers:
    def test_config_yaml_wins_over_the_desktop_panel(self, config: Path, home: Path):
        panel = home / "pgvector" / "config.json"
        panel.parent.mkdir()
        panel.write_text(json.dumps({"embed_url": "panel", "prefetch_limit": 2}))
        config.write_text("plugins: {pgvector: {embed_url: file}}\n")
        assert load_section(config) == {"embed_url": "file", "prefetch_limit": 2}

    def test_the_managed_scope_wins_over_config_yaml(
        self, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        managed = tmp_path / "managed"
        managed.mkdir()
        (managed / "config.yaml").write_text(
            "memory: {provider: pgvector}\nplugins: {pgvector: {dsn: fleet}}\n"
        )
        monkeypatch.setenv("HERMES_MANAGED_DIR", str(managed))
        config.write_text("plugins: {pgvector: {dsn: mine, embed_url: u}}\n")
        assert load_section(config) == {"dsn": "fleet", "embed_url": "u"}
        assert active_provider(config) == "pgvector"


class TestCaching:
    def test_a_changed_file_is_seen_at_once(self, config: Path):
        config.write_text("plugins: {pgvector: {dsn: a}}\n")
        assert load_section(config) == {"dsn": "a"}
        config.write_text("plugins: {pgvector: {dsn: longer}}\n")
        assert load_section(config) == {"dsn": "longer"}
        config.unlink()
        assert load_section(config) == {}

    def test_a_warm_call_does_not_read_the_file(self, config: Path):
        config.write_text("plugins: {pgvector: {dsn: one}}\n")
        before = config.stat()
        assert load_section(config) == {"dsn": "one"}
        config.write_text("plugins: {pgvector: {dsn: two}}\n")
        os.utime(config, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert load_section(config) == {"dsn": "one"}


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("a: 1\nb: [hunter2\nc: 2\n", "line"),
            ("a: hunter2\n b: 1\n", "line 2"),
            ("a: 1\n---\nb: hunter2\n", "line 2"),
            ("a: *hunter2\n", "line 1"),
            ("a: \x01hunter2\n", "not valid YAML"),
        ],
    )
    def test_broken_yaml_names_file_and_line_never_content(
        self, config: Path, text: str, place: str
    ):
        config.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load_section(config)
        message = str(caught.value)
        assert str(config) in message
        assert place in message
        assert "hunter2" not in message

    def test_a_file_in_another_encoding_is_named(self, config: Path):
        config.write_bytes(b"a: 1\nb: caf\xe9\n")
        with pytest.raises(ConfigError, match="not UTF-8 in line 2"):
            load_section(config)

    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ("plugins: [a]\n", "plugins"),
            ("plugins: text\n", "plugins"),
            ("plugins: {pgvector: text}\n", "plugins.pgvector"),
        ],
    )
    def test_a_section_of_another_shape_is_no_empty_section(
        self, config: Path, text: str, key: str
    ):
        config.write_text(text)
        with pytest.raises(ConfigError, match=f"{key} is not a mapping"):
            load_section(config)

    def test_a_broken_panel_file_is_named(self, config: Path, home: Path):
        panel = home / "pgvector" / "config.json"
        panel.parent.mkdir()
        panel.write_text('{"dsn": "hunter2"')
        with pytest.raises(
            ConfigError, match=r"config\.json: not valid JSON"
        ) as caught:
            load_section(config)
        assert "hunter2" not in str(caught.value)


class TestDotenv:
    def test_the_files_values_win_as_in_the_host(self, home: Path):
        (home / ".env").write_text(
            "\ufeff# comment\nexport A=1\nB = two words # note\nC='x # y'\n"
            'D="a\\nb \\"q\\""\nE=\nnonsense\nF=http://h/p#frag\r\n'
        )
        environ = {"A": "old", "KEPT": "yes"}
        load_dotenv(home, environ)
        assert environ == {
            "A": "1",
            "B": "two words",
            "C": "x # y",
            "D": 'a\nb "q"',
            "E": "",
            "F": "http://h/p#frag",
            "KEPT": "yes",
        }

    def test_it_reads_what_the_hosts_own_reader_reads(self, home: Path):
        text = "A=1\nexport B='q u'\nC=\"d # e\" # f\nD=x#y\nE=a b\nG=\n"
        (home / ".env").write_text(text)
        environ: dict[str, str] = {}
        load_dotenv(home, environ)
        assert environ == dotenv.dotenv_values(home / ".env")

    def test_no_file_changes_nothing(self, home: Path):
        environ = {"A": "1"}
        load_dotenv(home, environ)
        assert environ == {"A": "1"}


@pytest.mark.parametrize(
    "text",
    ["plugins: &a {pgvector: *a}\n", "x: &n ~\nplugins: {<<: *n, pgvector: {}}\n"],
)
def test_yaml_that_means_nothing_is_one_line(tmp_path: Path, text: str):
    config = tmp_path / "config.yaml"
    config.write_text(text)
    with pytest.raises(ConfigError, match="correct it"):
        load_section(config)
