"""The page on reliability names tests; they exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reliability.md"
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE.read_text())))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_page_names_exists(file, name):
    assert f"def {name}(" in (TESTS / file).read_text()


def test_every_fault_names_its_test():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert len(rows) > 15
    assert [row for row in rows[1:] if "::test_" not in row] == []
