"""Pictures of measurements: drawn from a run's result, and from nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from _panels import OURS, REFERENCE, panels
from plot import follow_the_reader

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
PERCENTILES = {"p50": 1.0, "p95": 2.0, "p99": 3.0}
HOOKS = dict.fromkeys(
    ("hook_p50_us", "hook_p99_us", "after_pause_p50_us", "init_cold_ms"), 1.0
) | {"init_warm_p50_ms": 2.0}
RESULTS = {
    "hooks": HOOKS | {"reference": HOOKS},
    "writes": {"ours_rows_per_s": 9, "reference_rows_per_s": 3, "ratio": 3.0},
    "embed": {"texts_per_s": 9, "reference_texts_per_s": 3, "ratio": 3.0},
    "load": {
        "agents": 32,
        "rows_per_s": 190.0,
        "recall_ms": PERCENTILES,
        "hook_us": PERCENTILES,
    },
    "locomo": {
        "conversations": {},
        "questions": 1155,
        "recall": {"5": 70.3, "50": 90.2},
        "reference": {"5": 43.1, "50": 73.1},
        "unseen": {},
        "without": {"words": {"5": 55.1, "50": 91.3}},
    },
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_benchmark_can_be_drawn(name: str):
    heading, drawn = panels(RESULTS[name])
    assert heading
    for panel in drawn:
        assert panel.unit
        assert all(panel.series.values())


def test_values_are_drawn_as_they_were_measured():
    _, (panel, without) = panels(RESULTS["locomo"])
    assert panel.series == {
        OURS: {5: 70.3, 50: 90.2},
        REFERENCE: {5: 43.1, 50: 73.1},
    }
    assert without.series["without words"] == {5: 55.1, 50: 91.3}


def test_what_is_no_result_is_refused():
    with pytest.raises(ValueError, match="not the JSON line"):
        panels({"rows": 3})


def test_a_picture_has_another_ink_on_dark_screens():
    svg = follow_the_reader('<svg><defs>\n</defs><path style="fill: #1f2328"/></svg>')
    assert '[style*="fill: #1f2328"]{fill:#e6e9ed!important}' in svg


@pytest.mark.parametrize("result", sorted(FIGURES.glob("*.json")), ids=lambda p: p.stem)
def test_a_published_picture_shows_its_result(result: Path):
    svg = result.with_suffix(".svg").read_text()
    heading, drawn = panels(json.loads(result.read_text()))
    for words in (heading, *(panel.title for panel in drawn)):
        assert f">{words}<" in svg
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert re.search(rf"!\[[^\]]{{20,}}\]\(figures/{result.stem}\.svg\)", page)
