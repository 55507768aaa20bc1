from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.settings_file import update
from hermes_pgmemory.settings_file._edit import edit
from hermes_pgmemory.settings_file._yaml import YamlProblem, compose, plain

DSN = "postgresql://u@h:5432/d?sslmode=require"
BOTH = {"memory.provider": "pgvector", "plugins.pgvector.dsn": DSN}


class Edited(NamedTuple):
    before: str
    after: str


EDITS = {
    "an empty file": Edited(
        before="",
        after=f"memory:\n  provider: pgvector\nplugins:\n  pgvector:\n    dsn: {DSN}\n",
    ),
    "a comment only": Edited(
        before="# mine\n",
        after="# mine\n"
        "memory:\n"
        "  provider: pgvector\n"
        "plugins:\n"
        "  pgvector:\n"
        f"    dsn: {DSN}\n",
    ),
    "no line end at the end": Edited(
        before="memory: {provider: x}\na: 1",
        after="memory: {provider: pgvector}\n"
        "a: 1\n"
        "plugins:\n"
        "  pgvector:\n"
        f"    dsn: {DSN}\n",
    ),
    "comments, quotes and odd indentation": Edited(
        before="# top\n"
        "memory:\n"
        "    memory_enabled: true   # yes\n"
        "    provider: ''  # none\n"
        "plugins:\n"
        "  # p\n"
        "  enabled:\n"
        "  - a\n"
        "  pgvector:\n"
        "    # where\n"
        "    dsn:   # empty\n"
        "    x: |\n"
        "      block\n"
        "      text\n"
        "\n"
        "# end\n"
        "zz: {a: 1}\n",
        after="# top\n"
        "memory:\n"
        "    memory_enabled: true   # yes\n"
        "    provider: 'pgvector'  # none\n"
        "plugins:\n"
        "  # p\n"
        "  enabled:\n"
        "  - a\n"
        "  pgvector:\n"
        "    # where\n"
        f"    dsn: {DSN}   # empty\n"
        "    x: |\n"
        "      block\n"
        "      text\n"
        "\n"
        "# end\n"
        "zz: {a: 1}\n",
    ),
    "double quotes": Edited(
        before=f'memory:\n  provider: "old"\nplugins: {{pgvector: {{dsn: "{DSN}"}}}}\n',
        after="memory:\n"
        '  provider: "pgvector"\n'
        f'plugins: {{pgvector: {{dsn: "{DSN}"}}}}\n',
    ),
    "flow mappings": Edited(
        before="memory: {a: 1}\nplugins: { pgvector: { b: 2 } }  # c\n",
        after="memory: {a: 1, provider: pgvector}\n"
        f'plugins: {{ pgvector: {{ b: 2, dsn: "{DSN}" }} }}  # c\n',
    ),
    "empty flow mappings": Edited(
        before="memory: {}\nplugins: {}\n",
        after="memory: {provider: pgvector}\n"
        f'plugins: {{pgvector: {{dsn: "{DSN}"}}}}\n',
    ),
    "sections without a value": Edited(
        before="plugins:   # p\nmemory: ~ # m\nz: 1\n",
        after="plugins:   # p\n"
        "  pgvector:\n"
        f"    dsn: {DSN}\n"
        "memory: # m\n"
        "  provider: pgvector\n"
        "z: 1\n",
    ),
    "a byte order mark and windows line ends": Edited(
        before="\ufeffmemory:\r\n  provider: x\r\nplugins:\r\n  enabled:\r\n  - a\r\n",
        after="\ufeffmemory:\r\n"
        "  provider: pgvector\r\n"
        "plugins:\r\n"
        "  enabled:\r\n"
        "  - a\r\n"
        "  pgvector:\r\n"
        f"    dsn: {DSN}\r\n",
    ),
    "a document with marks": Edited(
        before="---\na: 1 # x\nmemory: {provider: pgvector}\n...\n",
        after="---\n"
        "a: 1 # x\n"
        "memory: {provider: pgvector}\n"
        "plugins:\n"
        "  pgvector:\n"
        f"    dsn: {DSN}\n"
        "...\n",
    ),
    "values over several lines": Edited(
        before="plugins:\n"
        "  pgvector:\n"
        "    dsn: >-\n"
        "      a\n"
        "      b\n"
        "    c: d\n"
        "memory:\n"
        "  provider: 'a\n"
        "    b'\n",
        after="plugins:\n"
        "  pgvector:\n"
        f"    dsn: {DSN}\n"
        "    c: d\n"
        "memory:\n"
        "  provider: 'pgvector'\n",
    ),
}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


@pytest.mark.parametrize("edited", EDITS.values(), ids=EDITS.keys())
class TestEditing:
    def test_only_the_value_itself_changes(self, config: Path, edited: Edited):
        config.write_bytes(edited.before.encode())
        assert update(config, BOTH)
        assert config.read_bytes().decode() == edited.after

    def test_the_host_reads_what_was_asked_for(self, config: Path, edited: Edited):
        config.write_bytes(edited.before.encode())
        update(config, BOTH)
        data = yaml.safe_load(config.read_text(encoding="utf-8"))
        assert data["memory"]["provider"] == "pgvector"
        assert data["plugins"]["pgvector"]["dsn"] == DSN

    def test_asking_again_writes_nothing(self, config: Path, edited: Edited):
        config.write_bytes(edited.after.encode())
        inode = config.stat().st_ino
        assert not update(config, BOTH)
        assert config.stat().st_ino == inode


class TestValues:
    @pytest.mark.parametrize(
        "value",
        ["", "no", "null", "12", "1:30", "0o10", "a: b", "a #b", "- x", "*x", "{", "é"],
    )
    def test_a_string_stays_a_string_for_the_host(self, config: Path, value: str):
        update(config, {"plugins.pgvector.embed_model": value})
        data = yaml.safe_load(config.read_text(encoding="utf-8"))
        assert data["plugins"]["pgvector"]["embed_model"] == value

    @pytest.mark.parametrize(
        "value", [True, False, 3, 0.25, ["a", "b: c"], {"x": "y", "z": "no"}, []]
    )
    def test_other_values_keep_their_type(self, config: Path, value: Any):
        config.write_text("plugins:\n  pgvector:\n    key:\n      - a\n      - b\n")
        update(config, {"plugins.pgvector.key": value})
        data = yaml.safe_load(config.read_text())
        assert data["plugins"]["pgvector"]["key"] == value

    def test_a_number_written_as_text_is_no_change(self, config: Path):
        config.write_text("plugins: {pgvector: {prefetch_limit: 5}}\n")
        assert not update(config, {"plugins.pgvector.prefetch_limit": "5"})

    @given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from("'\" |"))
    def test_any_text_comes_back(self, value: str, quote: str):
        old = {"'": "'x'", '"': '"x"', "|": "|\n    x", " ": "x"}[quote]
        edited = edit(f"a:\n  b: {old}\n  c: 1 # c\n", {("a", "b"): value})
        assert plain(compose(edited)) == {"a": {"b": value, "c": 1}}
        assert edited.endswith("\n  c: 1 # c\n")


_scalars = (
    st.none() | st.booleans() | st.integers() | st.text("ab c#:-'\"\n", max_size=8)
)
_keys = st.sampled_from(["a", "b", "memory", "plugins", "pgvector", "dsn"])
_documents = st.dictionaries(
    _keys,
    st.recursive(
        _scalars,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=5,
)


@given(
    _documents,
    st.sampled_from([True, False, None]),
    st.lists(_keys, min_size=1, max_size=3),
)
def test_an_edit_changes_one_value_of_any_document_or_is_refused(
    document: dict[str, Any], flow: bool | None, path: list[str]
):
    text = yaml.safe_dump(document, default_flow_style=flow, sort_keys=False)
    expected = _with(document, path, "new value")
    if expected is None:
        with pytest.raises(YamlProblem, match="is not a mapping"):
            edit(text, {tuple(path): "new value"})
    else:
        assert yaml.safe_load(edit(text, {tuple(path): "new value"})) == expected


def _with(document: Any, path: list[str], value: str) -> dict[str, Any] | None:
    """Return *document* with *value* at *path*; None if no mapping leads there."""
    if document is not None and not isinstance(document, dict):
        return None
    key, *rest = path
    inner = _with((document or {}).get(key), rest, value) if rest else value
    return None if inner is None else {**(document or {}), key: inner}


class TestRefusing:
    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("plugins:\n- a\n", "plugins is not a mapping in line 2"),
            ("plugins: words\n", "plugins is not a mapping in line 1"),
            ("- a\n", "the document is not a mapping"),
            ("a: [1\n", "not valid YAML"),
            (f"a: {'[' * 1000}{']' * 1000}\n", "nests too deeply"),
            ("a: &x q\nplugins:\n  pgvector:\n    dsn: *x\n", "is an alias in line 4"),
        ],
    )
    def test_the_file_is_left_untouched(self, config: Path, text: str, why: str):
        config.write_text(text)
        with pytest.raises(ConfigError, match=why):
            update(config, {"plugins.pgvector.dsn": DSN})
        assert config.read_text() == text
        assert names(config.parent) == ["config.yaml", "pgvector"]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write any file")
    def test_a_file_we_may_not_write_is_named(self, config: Path):
        config.write_text("a: 1\n")
        config.chmod(0o400)
        with pytest.raises(ConfigError, match=r"config\.yaml: cannot be written"):
            update(config, BOTH)


class TestReplacing:
    def test_a_new_file_is_private(self, config: Path):
        update(config, BOTH)
        assert stat.S_IMODE(config.stat().st_mode) == 0o600

    def test_the_mode_stays(self, config: Path):
        config.write_text("a: 1\n")
        config.chmod(0o640)
        update(config, BOTH)
        assert stat.S_IMODE(config.stat().st_mode) == 0o640

    def test_a_symlink_is_followed_and_kept(self, config: Path, tmp_path: Path):
        real = tmp_path / "dotfiles" / "hermes.yaml"
        real.parent.mkdir()
        real.write_text("a: 1\n")
        config.symlink_to(real)
        update(config, BOTH)
        assert config.is_symlink()
        assert "pgvector" in real.read_text()

    def test_no_temporary_file_stays(self, config: Path):
        update(config, BOTH)
        assert names(config.parent) == ["config.yaml", "pgvector"]

    def test_updates_of_many_processes_are_all_kept(self, config: Path):
        config.write_text("# shared\nplugins:\n  pgvector:\n    dsn: d\n")
        code = (
            "import sys, pathlib\n"
            "from hermes_pgmemory.settings_file import update\n"
            "path, number = pathlib.Path(sys.argv[1]), sys.argv[2]\n"
            "for i in range(5):\n"
            "    update(path, {f'plugins.pgvector.k{number}x{i}': i})\n"
        )
        children = [
            subprocess.Popen([sys.executable, "-c", code, str(config), str(number)])
            for number in range(4)
        ]
        assert [child.wait() for child in children] == [0] * 4
        data = yaml.safe_load(config.read_text())["plugins"]["pgvector"]
        assert len(data) == 21
        assert config.read_text().startswith("# shared\n")
