from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli_kit import Run

from hermes_pgmemory import cli
from hermes_pgmemory.cli import install, status
from hermes_pgmemory.cli._result import Status
from hermes_pgmemory.errors import (
    BadRequest,
    ConfigError,
    DatabaseUnavailable,
    SchemaError,
)

COMMANDS = dict(cli.commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, run: Run):
    ran = run(name, "--help")
    assert ran.status == 0
    assert (COMMANDS[name].__doc__ or "").splitlines()[0] in ran.out


def test_every_command_is_in_the_list(run: Run):
    ran = run("--help")
    assert all(f"    {name}" in ran.out for name in COMMANDS)


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command, global options included."""
    tree = argparse.ArgumentParser(prog="hermes-pgvector")
    cli.register_cli(tree)
    [verbs] = [a for a in tree._actions if isinstance(a, argparse._SubParsersAction)]
    return verbs.choices[name]


class TestHelp:
    @pytest.mark.parametrize("name", COMMANDS)
    def test_it_tells_the_purpose_in_a_line_and_then_in_more(self, name: str):
        first, _, more = (COMMANDS[name].__doc__ or "").strip().partition("\n\n")
        assert 20 <= len(first) <= 88
        assert first.endswith(".")
        assert len(re.split(r"^Examples?:", more, flags=re.MULTILINE)[0]) >= 60

    @pytest.mark.parametrize("name", COMMANDS)
    def test_it_explains_every_argument(self, name: str):
        parser = parser_of(name)
        named = [action for action in parser._actions if action.dest != "help"]
        short = [a.dest for a in named if len(str(a.help or "").split()) < 2]
        assert short == []
        shown = " ".join(parser.format_help().split())
        for action in named:
            for word in action.option_strings or [action.metavar or action.dest]:
                assert str(word) in shown or action.choices
            assert " ".join(str(action.help).split()).replace("%%", "%") in shown

    @pytest.mark.parametrize("name", COMMANDS)
    def test_it_tells_every_exit_status(self, name: str):
        shown = " ".join(parser_of(name).format_help().split())
        told = re.findall(r"(?:Exit status: |; )(\d) ", shown)
        assert {int(status) for status in told} == set(Status)

    @pytest.mark.parametrize("name", COMMANDS)
    def test_its_examples_can_be_typed(self, name: str):
        text = COMMANDS[name].__doc__ or ""
        examples = re.findall(r"^  hermes-pgvector (.+)$", text, re.MULTILINE)
        assert examples
        for example in examples:
            verb, *words = shlex.split(example)
            assert verb == name
            parser_of(name).parse_args(words)


@pytest.mark.parametrize("name", ["prune", "cleanup", "remap", "reconcile", "forget"])
def test_what_destroys_says_that_it_only_rehearses(name: str, run: Run):
    assert "Without --execute nothing is" in " ".join(run(name, "--help").out.split())


def test_asking_for_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "from hermes_pgmemory.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'psycopg', 'pydantic', 'ruamel.yaml', 'httpx', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_module_runs_as_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "hermes_pgmemory", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("hermes-pgvector ")


class TestExitStatus:
    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (ConfigError({"plugins.pgvector.dsn": "is wrong"}), 1),
            (SchemaError("run `hermes-pgvector migrate`"), 1),
            (BadRequest("--days must be positive"), 2),
            (DatabaseUnavailable("the database does not answer"), 3),
            (PermissionError(13, "Permission denied", "/etc/x"), 1),
            (RuntimeError("a bug"), 1),
        ],
    )
    def test_it_tells_what_kind_of_failure_it_was_and_one_line_why(
        self,
        run: Run,
        monkeypatch: pytest.MonkeyPatch,
        error: Exception,
        expected: int,
    ):
        def fail(_: argparse.Namespace) -> None:
            raise error

        monkeypatch.setattr(status, "run", fail)
        ran = run("status")
        assert ran.status == expected
        assert ran.out == ""
        [line] = ran.err.splitlines()
        words = str(error) if not isinstance(error, OSError) else "/etc/x: Permission"
        assert words in line

    def test_debug_shows_where_it_happened(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ):
        def fail(_: argparse.Namespace) -> None:
            raise SchemaError("here")

        monkeypatch.setattr(status, "run", fail)
        with pytest.raises(SchemaError):
            run("status", "--debug")

    @pytest.mark.parametrize(
        "words",
        [
            ["nosuch"],
            ["status", "--nosuch"],
            ["server"],
            ["server", "jump"],
            ["prune", "--days", "soon"],
            ["prune", "--day", "1"],
            ["prune"],
            ["remap", "only-one"],
            ["remap", "one", "one"],
            ["remap", "whatsapp-dm", "one"],
            ["backfill", "--batch", "0"],
            ["cleanup", "everything"],
            ["stats", "--runs", "-1"],
            ["migrate", "--runtime-role"],
        ],
    )
    def test_wrong_usage_is_2(self, run: Run, words: list[str]):
        assert run(*words).status == 2

    def test_ctrl_c_ends_quietly(self, run: Run, monkeypatch: pytest.MonkeyPatch):
        def interrupt(_: argparse.Namespace) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(status, "run", interrupt)
        ran = run("status")
        assert (ran.status, ran.out, ran.err) == (130, "", "")

    @pytest.mark.parametrize(
        ("words", "expected"),
        [("config --reference", 0), ("config", 1), ("setup 2>&1", 1)],
    )
    def test_a_reader_that_has_seen_enough_changes_nothing(
        self, home: Path, words: str, expected: int
    ):
        (home / "config.yaml").write_text("plugins: {pgvector: {nosuch: 1}}")
        writer = f"{sys.executable} -m hermes_pgmemory {words} --home {home}"
        done = subprocess.run(
            ["bash", "-c", f"({writer}) | true; echo ${{PIPESTATUS[0]}}"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"{expected}\n"

    def test_a_pipe_that_breaks_elsewhere_is_a_failure(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ):
        def fail(_: argparse.Namespace) -> None:
            raise BrokenPipeError(32, "Broken pipe")

        monkeypatch.setattr(status, "run", fail)
        assert run("status").status == 1


class TestHome:
    def test_it_is_hermes_home(
        self,
        home: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ):
        monkeypatch.setenv("HERMES_HOME", str(home / "of-env"))
        assert cli.main(["install"]) == 0
        assert (home / "of-env" / "plugins" / "pgvector" / "cli.py").exists()
        assert "of-env" in capsys.readouterr().out

    def test_or_the_hosts_default(self, tmp_path: Path):
        assert cli.main(["install"]) == 0
        assert (tmp_path / ".hermes" / "plugins" / "pgvector" / "cli.py").exists()

    def test_its_dotenv_counts_as_in_the_host(
        self, home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("EMBED_HOST", "old")
        (home / ".env").write_text("EMBED_HOST=new\n")
        (home / "config.yaml").write_text(
            "plugins: {pgvector: {embed_url: 'http://${EMBED_HOST}/v1'}}\n"
        )
        shown = run("config", "--json").data["settings"]
        assert shown["embed_url"] == "http://new/v1"


def test_the_host_can_mount_the_tree_below_a_parser_of_its_own(home: Path):
    host = argparse.ArgumentParser(prog="hermes")
    mounted = host.add_subparsers(dest="command").add_parser("pgvector")
    cli.register_cli(mounted)
    args = host.parse_args(["pgvector", "install", "--home", str(home), "--json"])
    assert args.command == "pgvector"
    assert args.pgvector_run is install.run
    assert cli.dispatch(args) == 0
