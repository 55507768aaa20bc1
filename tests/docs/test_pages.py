"""What the pages name exists: commands, settings, files, what `status` says."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from hermes_pgmemory import cli, config, ranking, recall
from hermes_pgmemory.store import search

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BUILT = {"_build", "_generated"}
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(page for page in sorted(DOCS.rglob("*.md")) if not BUILT & {*page.parts}),
]
FENCES = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def commands_of(page: Path) -> list[str]:
    """Return each call of our command in a page's blocks, without its pipes."""
    found: list[str] = []
    for language, text in FENCES.findall(page.read_text()):
        if language not in ("sh", "console"):
            continue
        lines = text.replace("\\\n", " ").splitlines()
        typed = [
            line.strip().removeprefix("$ ")
            for line in lines
            if language == "sh" or line.lstrip().startswith(("$ ", "# "))
        ]
        for line in typed:
            found += re.findall(r"hermes-pgvector (\w[^|;&>#]*)", line)
    return [command.partition(";")[0].strip() for command in found]


CALLS = [
    pytest.param(command, id=f"{page.relative_to(ROOT)}: {command}")
    for page in PAGES
    for command in commands_of(page)
]


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hermes-pgvector")
    cli.register_cli(parser)
    return parser


@pytest.mark.parametrize("command", CALLS)
def test_a_command_can_be_typed(command: str, parser: argparse.ArgumentParser):
    parser.parse_args(shlex.split(command))


def test_pages_that_hold_commands_are_found():
    assert len(CALLS) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
class TestPage:
    def test_verbs_in_its_text_exist(self, page: Path):
        verbs = re.findall(r"`hermes-pgvector (\w+)", page.read_text())
        assert set(verbs) - {"COMMAND"} <= {name for name, _ in cli.commands()}

    def test_links_lead_somewhere(self, page: Path):
        links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == []

    def test_scripts_are_there(self, page: Path):
        named = re.findall(r"(?<![\w/.])scripts/[\w./]*\w", page.read_text())
        assert [name for name in named if not (ROOT / name).exists()] == []

    def test_settings_in_its_examples_are_taken(self, page: Path):
        for language, text in FENCES.findall(page.read_text()):
            if language == "yaml":
                section = YAML(typ="safe").load(text)["plugins"]["pgvector"]
                assert config.parse(section).problems == {}


def test_what_troubleshooting_quotes_is_what_is_said():
    page = (DOCS / "how-to" / "troubleshooting.md").read_text()
    rows = re.findall(r"^\| [\w ]+ \| (.*?) \| .* \|$", page, re.MULTILINE)
    quoted = [part for row in rows for part in re.findall(r"`([^`]+)`", row)]
    assert len(quoted) > 20
    files = (ROOT / "src").rglob("*.py")
    # A string may go on in the next line.
    source = re.sub(r'"\s+f?"', "", "\n".join(file.read_text() for file in files))
    words = [part.removeprefix("memory.provider is").strip() for part in quoted]
    assert [part for part in words if part not in source] == []


def test_no_advice_puts_an_owners_connection_string_on_a_command_line():
    files = [*PAGES, *sorted((ROOT / "src").rglob("*.py"))]
    told = {file: re.sub(r'"\s+f?"', "", file.read_text()) for file in files}
    shown = re.compile(r"--admin-dsn ?=? ?(?:DSN\b|[\"']?(?:host=|postgres))")
    assert [file for file, text in told.items() if shown.search(text)] == []


def test_the_figures_of_recall_are_those_of_the_code():
    page = (DOCS / "explanation" / "recall.md").read_text()
    numbers = {float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", page)}
    used = {
        ranking.PRIOR_ROWS,
        ranking._NEARNESS_SHARE,
        round(1 - ranking._NEARNESS_SHARE, 2),
        ranking._PER_ROWS,
        ranking._USUAL_ROWS,
        *ranking._BY_DISTANCE.values(),
        ranking._BY_SESSION,
        recall.EMBED_SHARE,
        search.POOL,
    }
    assert used - numbers == set()
