"""The door as the real host's loader sees it, each time in a fresh process."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_pgmemory.config import ENVIRONMENT
from hermes_pgmemory.settings_docs import field_docs
from hermes_pgmemory.settings_file import load_dotenv, load_section

InHost = Callable[..., Any]

LOAD = """
from plugins.memory import load_memory_provider
def kind(p):
    return p and f"{type(p).__module__}.{type(p).__name__}"
"""
OURS = "hermes_pgmemory.provider.PgvectorProvider"


@pytest.mark.usefixtures("folder")
class TestProvider:
    def test_it_is_discovered_and_available(self, in_host: InHost):
        result = in_host(
            "from plugins.memory import discover_memory_providers\n"
            "result = {n: (d, a) for n, d, a in discover_memory_providers()}"
        )
        description, available = result["pgvector"]
        assert available
        assert "PostgreSQL" in description

    def test_each_agent_gets_a_provider_of_its_own(self, in_host: InHost):
        result = in_host(
            LOAD + "a, b = (load_memory_provider('pgvector') for _ in range(2))\n"
            "result = [kind(a), kind(b), a is b]"
        )
        assert result == [OURS, OURS, False]

    @pytest.mark.parametrize("first", ["cli.py", "config_schema.py", "__init__.py"])
    def test_the_order_in_which_the_host_runs_the_files_does_not_matter(
        self, in_host: InHost, first: str
    ):
        result = in_host(
            LOAD + "import pathlib\n"
            "glob = pathlib.Path.glob\n"
            f"order = lambda path: path.name != {first!r}\n"
            "pathlib.Path.glob = lambda *args: sorted(glob(*args), key=order)\n"
            "result = kind(load_memory_provider('pgvector'))"
        )
        assert result == OURS

    def test_an_agent_that_loads_it_while_it_is_half_loaded_has_memory(
        self, in_host: InHost
    ):
        result = in_host(
            LOAD + "import importlib.machinery as machinery\n"
            "run = machinery.SourceFileLoader.exec_module\n"
            "seen = []\n"
            "def exec_module(self, module):\n"
            "    run(self, module)\n"
            "    if module.__name__.startswith('_hermes_user_memory.pgvector.'):\n"
            "        machinery.SourceFileLoader.exec_module = run\n"
            "        seen.append(kind(load_memory_provider('pgvector')))\n"
            "machinery.SourceFileLoader.exec_module = exec_module\n"
            "seen.append(kind(load_memory_provider('pgvector')))\n"
            "seen.append(kind(load_memory_provider('pgvector')))\n"
            "result = seen"
        )
        assert result == [OURS] * 3

    def test_agents_that_load_it_at_the_same_time_do_not_break_it(
        self, in_host: InHost
    ):
        result = in_host(
            LOAD + "from concurrent.futures import ThreadPoolExecutor\n"
            "from threading import Barrier\n"
            "barrier = Barrier(8)\n"
            "def load(_):\n"
            "    barrier.wait()\n"
            "    return kind(load_memory_provider('pgvector'))\n"
            "with ThreadPoolExecutor(8) as pool:\n"
            "    first = set(pool.map(load, range(8)))\n"
            "    result = [sorted(first - {None}), list(pool.map(load, range(8)))]"
        )
        assert result == [[OURS], [OURS] * 8]

    def test_it_works_after_the_command_line_was_looked_for(
        self, in_host: InHost, home: Path
    ):
        (home / "config.yaml").write_text("memory: {provider: pgvector}\n")
        result = in_host(
            LOAD + "from plugins.memory import discover_plugin_cli_commands\n"
            "names = [c['name'] for c in discover_plugin_cli_commands()]\n"
            "result = [names, kind(load_memory_provider('pgvector'))]"
        )
        assert result == [["pgvector"], OURS]


class TestFiles:
    def test_the_host_sees_a_memory_provider_in_its_first_8192_characters(
        self, folder: Path
    ):
        head = (folder / "__init__.py").read_text()[:8192]
        assert "register_memory_provider" in head

    def test_no_name_of_the_plugin_is_a_files_name(self, folder: Path):
        # Newer hosts bind each file to its name in the plugin's module.
        tree = ast.parse((folder / "__init__.py").read_text())
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert defined
        assert not defined & {path.stem for path in folder.glob("*.py")}

    @pytest.mark.parametrize("name", ["__init__.py", "cli.py", "config_schema.py"])
    def test_running_a_file_imports_nothing(self, folder: Path, name: str):
        code = (
            "import sys\n"
            "code = compile(open(sys.argv[1]).read(), 'x', 'exec')\n"
            "before = set(sys.modules)\n"
            "exec(code, {'__package__': ''})\n"
            "print(sorted(set(sys.modules) - before))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder / name)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "[]\n"

    def test_the_manifest_names_a_package_whose_import_the_host_can_guess(
        self, folder: Path
    ):
        manifest = yaml.safe_load((folder / "plugin.yaml").read_text())
        assert manifest["name"] == folder.name
        assert manifest["kind"] == "exclusive"
        [dependency] = manifest["pip_dependencies"]
        assert __import__(dependency.replace("-", "_")).__name__ == "hermes_pgmemory"


@pytest.mark.usefixtures("folder")
class TestConfigSchema:
    def test_the_desktop_panel_shows_every_setting(self, in_host: InHost):
        result = in_host(
            "from plugins.memory.config_schema import get_provider_config_schema\n"
            "schema = get_provider_config_schema('pgvector')\n"
            "result = [[f.key, f.default, f.kind, [o.value for o in f.options]]"
            " for f in schema.fields]"
        )
        docs = {doc.key: doc for doc in field_docs()}
        assert [key for key, *_ in result] == list(docs)
        kinds = {"text", "secret", "bool", "number", "select", "json"}
        for key, default, kind, options in result:
            assert default == docs[key].default
            assert kind in kinds
            assert options == list(docs[key].choices)
            assert kind != "select" or default in options

    def test_what_the_panel_saves_reaches_the_settings(
        self, in_host: InHost, home: Path, monkeypatch: pytest.MonkeyPatch
    ):
        in_host(
            "from hermes_cli.web_server import _update_memory_provider_config\n"
            "from plugins.memory.config_schema import get_provider_config_schema\n"
            "schema = get_provider_config_schema('pgvector')\n"
            "_update_memory_provider_config(schema, {'dsn': 'host=db',"
            " 'dsn_read': 'host=standby',"
            " 'embed_url': 'http://e', 'prefetch_limit': '7', 'sync_turns': 'false',"
            " 'identity_aliases': '{\"a\": \"b\"}'})\n"
            "result = None"
        )
        for variable in ENVIRONMENT.values():
            monkeypatch.setenv(variable, "")
        load_dotenv(home, os.environ)
        section = load_section(home / "config.yaml")
        assert section["dsn"] == "host=db"
        assert section["dsn_read"] == "host=standby"
        assert section["embed_url"] == "http://e"
        assert section["prefetch_limit"] == 7
        assert section["sync_turns"] is False
        assert section["identity_aliases"] == {"a": "b"}
        assert "host=" not in (home / "pgvector" / "config.json").read_text()

    def test_without_the_hosts_own_module_it_is_empty(self, folder: Path):
        code = (
            "import runpy, sys\n"
            "sys.modules['plugins'] = None\n"
            "space = runpy.run_path(sys.argv[1])\n"
            "print(space['__getattr__']('CONFIG_SCHEMA'))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder / "config_schema.py")],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "None\n"


@pytest.mark.usefixtures("folder")
class TestWithoutThePackage:
    CODE = (
        LOAD + "import io, logging\n"
        "heard = io.StringIO()\n"
        "logging.basicConfig(stream=heard, level=logging.WARNING)\n"
        "loaded = [load_memory_provider('pgvector') for _ in range(3)]\n"
        "result = [[p.is_available() for p in loaded], loaded[0].unavailable_reason(),"
        " heard.getvalue()]"
    )

    def test_the_agent_goes_without_and_the_log_says_once_why(
        self, in_host: InHost, without_package: dict[str, str], folder: Path
    ):
        available, reason, heard = in_host(self.CODE, without_package)
        assert available == [False] * 3
        assert f"{sys.executable} -m pip install hermes-pgmemory" in reason
        assert str(folder) in reason
        assert heard.count("\n") == 1
        assert reason in heard

    def test_a_missing_dependency_is_named(
        self, in_host: InHost, host_env: dict[str, str], tmp_path: Path
    ):
        (tmp_path / "psycopg.py").write_text(
            "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)"
        )
        env = {**host_env, "PYTHONPATH": str(tmp_path)}
        _, reason, _ = in_host(self.CODE, env)
        assert "cannot import psycopg" in reason

    def test_once_it_is_installed_the_setup_goes_on(
        self, in_host: InHost, without_package: dict[str, str], home: Path
    ):
        # The host's setup installs the package into the running interpreter.
        (home / "config.yaml").write_text("plugins: {pgvector: {nosuch: 1}}\n")
        result = in_host(
            LOAD + "import contextlib, io, sys\n"
            "provider = load_memory_provider('pgvector')\n"
            "sys.path.pop(next(i for i, p in enumerate(sys.path) if 'shadow' in p))\n"
            "with contextlib.redirect_stdout(io.StringIO()) as out:\n"
            f"    provider.post_setup({str(home)!r}, {{}})\n"
            "result = [kind(provider).rpartition('.')[2], out.getvalue()]",
            without_package,
        )
        assert result[0] == "Unavailable"
        assert "✗ settings: plugins.pgvector.nosuch" in result[1]
