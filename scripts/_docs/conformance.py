"""What the last run of `scripts/conformance` found, as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _docs.words import Undocumented, required, table

RESULTS = Path(__file__).parents[2] / "conformance" / "results"
SHOWN = ("pgvector", "reference", "holographic")
MARKS = {"passed": "yes", "not offered": "\u2013"}


def conformance() -> str:
    """Return the run's versions, every check, and why what failed did."""
    reports = [json.loads((RESULTS / f"{name}.json").read_text()) for name in SHOWN]
    return "\n\n".join(
        (_about(reports), _outcomes(reports), "## Why", _reasons(reports))
    )


def _about(reports: Sequence[dict[str, Any]]) -> str:
    counts = [
        (
            f"{one['adapter']}: {one['version']}",
            _passed(one, "must"),
            _passed(one, "should"),
            f"{_count(one, 'not offered')}",
            one["date"],
        )
        for one in reports
    ]
    hosts = sorted({f"{one['host']}, Python {one['python']}" for one in reports})
    head = ("provider", "must", "should", "not offered", "day")
    return f"{table(head, counts)}\n\nWith {'; '.join(hosts)}."


def _count(report: dict[str, Any], outcome: str, kind: str = "") -> int:
    return sum(
        one["outcome"] == outcome and kind in ("", one["kind"])
        for one in report["checks"]
    )


def _passed(report: dict[str, Any], kind: str) -> str:
    passed = _count(report, "passed", kind)
    return f"{passed} of {passed + _count(report, 'failed', kind)}"


def _outcomes(reports: Sequence[dict[str, Any]]) -> str:
    by_id = [{one["id"]: one for one in report["checks"]} for report in reports]
    rows = [
        (
            f"`{id_}`",
            required(one["sentence"], of=f"check {id_}"),
            one["kind"],
            *(_mark(found, id_) for found in by_id),
        )
        for id_, one in by_id[0].items()
    ]
    names = [report["adapter"] for report in reports]
    return table(("check", "what is asked", "", *names), rows)


def _mark(found: dict[str, Any], id_: str) -> str:
    if id_ not in found:
        raise Undocumented(f"check {id_} did not run for all; run scripts/conformance")
    return MARKS.get(found[id_]["outcome"], "**no**")


def _reasons(reports: Sequence[dict[str, Any]]) -> str:
    failed = [
        (report["adapter"], f"`{one['id']}`", f"`{_short(one['why'])}`")
        for report in reports
        for one in report["checks"]
        if one["outcome"] == "failed"
    ]
    return table(("provider", "check", "what was seen"), failed)


def _short(why: str) -> str:
    return why.replace("`", "'")[:160]
