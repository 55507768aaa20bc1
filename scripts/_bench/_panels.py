"""What is drawn of a benchmark's result; numbers only, no drawing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

OURS, REFERENCE = "hermes-pgmemory", "reference 1.0.0"


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    unit: str
    """What the upright axis counts."""
    series: Mapping[str, Mapping[Any, float]]
    """Name of each series, and its value at each place of the level axis."""
    along: str = ""
    """What the level axis counts; bars where it is empty."""
    log: str = ""
    """The axes that are logarithmic: "x", "y" or "xy"."""
    at_least: float | None = None
    """A target, as a line across."""
    dashed: frozenset[str] = field(default_factory=frozenset)
    """Series that are there for comparison only."""


def panels(report: Mapping[str, Any]) -> tuple[str, list[Panel]]:
    """Return a heading and the panels for the result of any benchmark.

    Raises:
        ValueError: It is no benchmark's.
    """
    for sign, draw in _KINDS.items():
        if sign in report:
            return draw(report)
    raise ValueError("not the JSON line of a benchmark that can be drawn")


def _scale(report: Mapping[str, Any]) -> tuple[str, list[Panel]]:
    ours = sorted([*report["themes"], report["all"]], key=lambda one: one["rows"])
    theirs = sorted(report["reference"], key=lambda one: one["rows"])

    def of(ones: list[dict[str, Any]], key: str) -> dict[int, float]:
        return {one["rows"]: one[key] for one in ones}

    both = {OURS: ours} | ({REFERENCE: theirs} if theirs else {})
    recall = {name: of(ones, "recall_at_10") for name, ones in both.items()}
    times = {name: of(ones, "p50_ms") for name, ones in both.items()}
    by_hand = "SQL by hand"
    along = "rows searched; the last point: all themes"
    return f"{report['rows']:,} rows of {report['dim']} dimensions", [
        Panel("Recall at 10", "share found", recall, along, "x", at_least=0.99),
        Panel(
            "Time of a search, p50",
            "ms",
            times | {by_hand: of(ours, "raw_p50_ms")},
            along,
            "xy",
            dashed=frozenset({by_hand}),
        ),
    ]


def _locomo(report: Mapping[str, Any]) -> tuple[str, list[Panel]]:
    named = {
        OURS: "recall",
        REFERENCE: "reference",
        f"{OURS}, unseen": "unseen",
        f"{REFERENCE}, unseen": "reference_unseen",
    }
    series = {
        name: {int(k): value for k, value in report[key].items()}
        for name, key in named.items()
        if report.get(key)
    }
    dashed = frozenset(name for name in series if name.endswith("unseen"))
    heading = f"LoCoMo, {report['questions']:,} questions"
    along = "turns returned"
    drawn = [Panel("Evidence found", "% of turns", series, along, "x", dashed=dashed)]
    if without := report.get("without"):
        less = {OURS: series[OURS]} | {
            f"without {name}": {int(k): value for k, value in found.items()}
            for name, found in without.items()
        }
        drawn.append(Panel("What each brings", "% of turns", less, along, "x"))
    return heading, drawn


def _hooks(report: Mapping[str, Any]) -> tuple[str, list[Panel]]:
    theirs = report["reference"]

    def bars(title: str, unit: str, keys: Mapping[str, str]) -> Panel:
        both = ((OURS, report), (REFERENCE, theirs))
        series = {
            name: {label: one[key] for label, key in keys.items() if key in one}
            for name, one in both
        }
        return Panel(title, unit, series, log="y")

    hooks = {"p50": "hook_p50_us", "p99": "hook_p99_us"}
    hooks |= {"after a pause": "after_pause_p50_us"}
    starts = {"first": "init_cold_ms", "later, p50": "init_warm_p50_ms"}
    return "Hooks", [
        bars("A hook", "µs", hooks),
        bars("initialize", "ms", starts),
    ]


def _pair(what: str, ours: str, theirs: str) -> Callable[..., tuple[str, list[Panel]]]:
    def draw(report: Mapping[str, Any]) -> tuple[str, list[Panel]]:
        series = {OURS: {"": report[ours]}, REFERENCE: {"": report[theirs]}}
        return f"{what}: {report['ratio']} times", [Panel(what, "a second", series)]

    return draw


def _load(report: Mapping[str, Any]) -> tuple[str, list[Panel]]:
    heading = f"{report['agents']} agents, {report['rows_per_s']:,} rows a second"
    return heading, [
        Panel("A recall", "ms", {OURS: report["recall_ms"]}),
        Panel("A hook", "µs", {OURS: report["hook_us"]}),
    ]


_KINDS: dict[str, Callable[..., tuple[str, list[Panel]]]] = {
    "themes": _scale,
    "conversations": _locomo,
    "hook_p50_us": _hooks,
    "ours_rows_per_s": _pair("Turns stored", "ours_rows_per_s", "reference_rows_per_s"),
    "texts_per_s": _pair("Texts embedded", "texts_per_s", "reference_texts_per_s"),
    "recall_ms": _load,
}
"""A key that only one benchmark's result has, and what draws it."""
