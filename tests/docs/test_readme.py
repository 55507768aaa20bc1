"""What the README says is true of the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^\$ (\S+)(?: (\S+))?", README, re.MULTILINE)


def run(*args: str) -> str:
    command = [sys.executable, "-m", "hermes_pgmemory", *args]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout


def test_the_table_of_settings_is_the_generated_one():
    begin, end = "config --reference) -->\n", "<!-- settings: end"
    table = README.partition(begin)[2].partition(end)[0]
    assert table.strip() == run("config", "--reference").strip()


@pytest.mark.parametrize(
    "script", sorted(set(re.findall(r"scripts/\w+(?:\.\w+)?", README)))
)
def test_a_script_it_names_can_be_run(script):
    assert os.access(ROOT / script, os.X_OK)


@pytest.mark.parametrize(
    "verb", sorted({verb for name, verb in COMMANDS if name == "hermes-pgvector"})
)
def test_a_command_it_names_explains_itself(verb):
    assert run(verb, "--help").startswith("usage: hermes-pgvector")


@pytest.mark.parametrize("page", sorted(set(re.findall(r"\]\(([^)h][^)]*)\)", README))))
def test_a_page_it_links_to_is_there(page):
    assert (ROOT / page).exists()


def test_it_fits_two_screens_besides_the_table():
    table = re.compile(r"<!-- settings: begin.*settings: end -->", re.DOTALL)
    text = table.sub("", README)
    assert len(text.splitlines()) <= 100
