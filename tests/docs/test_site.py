"""The site: it builds, and its reference tells of everything."""

from __future__ import annotations

import html
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import _docs
import pytest

from hermes_pgmemory import Memory, cli, errors
from hermes_pgmemory.config import Settings
from hermes_pgmemory.metrics import REGISTRY
from hermes_pgmemory.tools import TOOL_SCHEMAS

ROOT = Path(__file__).parents[2]
BUILD = [sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning"]
BUILD += ["--keep-going", "--quiet"]
CPU_S = 15.0
"""Processor time that a build may take; it took 3 s on a slow core."""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, built without network as `scripts/docs` builds it."""
    out = tmp_path_factory.mktemp("site")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    nowhere = "http://127.0.0.1:9"
    done = subprocess.run(
        [*BUILD, "--doctree-dir", out / "doctrees", ROOT / "docs", out / "html"],
        env={**os.environ, "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (0, "")
    assert after.ru_utime - before.ru_utime < CPU_S
    return out / "html"


def words_of(page: Path) -> str:
    """Return what a page says, without its markup."""
    main = page.read_text().partition('<article role="main"')[2]
    return html.unescape(re.sub(r"<[^>]+>", "", main.partition("</article>")[0]))


def test_every_page_is_in_it(site: Path):
    pages = (ROOT / "docs").rglob("*.md")
    names = [page.relative_to(ROOT / "docs") for page in pages]
    wanted = [name for name in names if not {"_build", "_generated"} & {*name.parts}]
    assert len(wanted) > 25
    assert [n for n in wanted if not (site / n.with_suffix(".html")).exists()] == []


def test_nothing_in_it_comes_from_elsewhere(site: Path):
    loaded = re.compile(r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="http')
    pages = {page: page.read_text() for page in site.rglob("*.html")}
    assert [page for page, text in pages.items() if loaded.search(text)] == []


def test_the_reference_tells_of_every_setting(site: Path):
    said = words_of(site / "reference" / "settings.html")
    missing = [
        key
        for key, field in Settings.model_fields.items()
        if key not in said or not field.description
    ]
    assert missing == []


@pytest.mark.parametrize("name", [name for name, _ in cli.commands()])
def test_the_reference_says_what_a_command_says_itself(
    site: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out.strip()
    assert said in words_of(site / "reference" / "commands.html")


def test_the_reference_tells_of_every_metric(site: Path):
    said = words_of(site / "reference" / "metrics.html")
    families = list(REGISTRY.collect())
    assert families
    missing = [
        family.name
        for family in families
        if f"{family.name}_total" not in said and family.name not in said
    ]
    assert missing == []


def test_the_reference_tells_of_every_error(site: Path):
    said = words_of(site / "reference" / "errors.html")
    public = [
        name
        for name, one in vars(errors).items()
        if isinstance(one, type) and issubclass(one, Exception)
    ]
    assert len(public) > 10
    assert [name for name in public if name not in said] == []


def test_the_reference_tells_of_every_tool_and_argument(site: Path):
    said = words_of(site / "reference" / "tools.html")
    names = [
        name
        for tool in TOOL_SCHEMAS
        for name in (tool["name"], *tool["parameters"]["properties"])
    ]
    assert [name for name in names if name not in said] == []


def test_the_reference_tells_of_every_method_of_the_library(site: Path):
    said = words_of(site / "reference" / "library.html")
    public = [name for name in vars(Memory) if not name.startswith("_")]
    assert len(public) > 10
    assert [name for name in public if name not in said] == []


def test_the_reference_tells_of_every_exit_status(site: Path):
    said = words_of(site / "reference" / "exit-status.html")
    statuses = [*map(int, cli.Status), cli.INTERRUPTED]
    assert [s for s in statuses if not re.search(rf"^{s}$", said, re.MULTILINE)] == []


def test_the_reference_holds_the_schema(site: Path):
    schema = ROOT / "src" / "hermes_pgmemory" / "store" / "schema.sql"
    assert schema.read_text().strip() in words_of(site / "reference" / "schema.html")


def test_something_public_without_a_word_stops_the_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    class Nameless(errors.Rejected):
        pass

    monkeypatch.setattr(errors, "Nameless", Nameless, raising=False)
    with pytest.raises(_docs.Undocumented, match="Nameless"):
        _docs.write(tmp_path)
