"""Draw what the bench of scale found: BASE.json becomes BASE.png. Needs matplotlib."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt


def main() -> None:
    """Draw recall and time over the number of rows of a theme."""
    base = Path(sys.argv[1])
    report = json.loads(base.with_suffix(".json").read_text())
    drawn = {"hermes-pgmemory": [*report["themes"], report["all"]]}
    if report["reference"]:
        drawn["reference 1.0.0"] = report["reference"]
    figure, (recall, times) = plt.subplots(1, 2, figsize=(11, 4.2))
    for name, unordered in drawn.items():
        ones = drawn[name] = sorted(unordered, key=lambda one: one["rows"])
        rows = [one["rows"] for one in ones]
        recall.plot(rows, [one["recall_at_10"] for one in ones], "o-", label=name)
        times.plot(rows, [one["p50_ms"] for one in ones], "o-", label=f"{name}, p50")
    ours = drawn["hermes-pgmemory"]
    raw = [one["raw_p50_ms"] for one in ours]
    times.plot([one["rows"] for one in ours], raw, "x--", label="SQL by hand, p50")
    recall.axhline(0.99, color="grey", linewidth=0.8)
    recall.set(ylabel="recall at 10", ylim=(0, 1.05))
    times.set(ylabel="ms", yscale="log")
    for axes in (recall, times):
        axes.set(xlabel="rows searched (the last point: all themes)", xscale="log")
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    figure.suptitle(f"{report['rows']:,} rows, {report['dim']} dimensions")
    figure.tight_layout()
    figure.savefig(base.with_suffix(".png"), dpi=120)


main()
