"""The host's list of enabled plugins: ours comes and goes, the others stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_pgmemory import cli, door, settings_file


@pytest.mark.parametrize("others", [[], ["weather"]], ids=["alone", "among others"])
def test_uninstall_takes_ours_off_and_leaves_the_others(tmp_path: Path, others):
    home = tmp_path / "home"
    door.install(home)
    config = home / "config.yaml"
    settings_file.update(
        config,
        {"memory.provider": "pgvector", "plugins.enabled": (*others, "pgvector")},
    )
    assert cli.main(["uninstall", "--home", str(home)]) == 0
    assert settings_file.enabled_plugins(config) == others
    assert settings_file.active_provider(config) == ""


@pytest.mark.parametrize("text", ["", "plugins: {}\n", "plugins: {enabled: yes}\n"])
def test_a_missing_list_is_told_from_an_empty_one(tmp_path: Path, text: str):
    config = tmp_path / "config.yaml"
    config.write_text(text)
    assert settings_file.enabled_plugins(config) is None
    config.write_text("plugins: {enabled: []}\n")
    assert settings_file.enabled_plugins(config) == []
