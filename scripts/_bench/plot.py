"""Draw a benchmark's result: scripts/bench plot RESULT.json [FOLDER].

RESULT.json is what a benchmark prints at its end (`scripts/bench NAME >
bench-results/NAME.json`). RESULT.svg, which follows a reader's light or dark mode,
and RESULT.png are written beside it, or to FOLDER. matplotlib is fetched into
bench-results/plotting, where it lacks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _panels import Panel, panels

LENT = Path(__file__).parents[2] / "bench-results" / "plotting"
PAPER, INK, PALE, RULE = "#fafaf8", "#1f2328", "#57606a", "#d8d8d2"
COLOURS = ("#3b74c4", "#b5771f", "#3d8b57", "#8a63d2")
"""The lines' colours; readable on light paper and on dark."""
FEW = 5
"""So many places of the level axis are all named."""
DARK = {PAPER: "#16191e", INK: "#e6e9ed", PALE: "#a3abb5", RULE: "#30363d"}


def main() -> None:
    """Draw, with matplotlib at hand."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if find_spec("matplotlib") is None:
        sys.exit(_again_with_matplotlib())
    source = Path(sys.argv[1])
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else source.parent
    # Printed beside other words, the result is the last line.
    report = json.loads(source.read_text().strip().splitlines()[-1])
    try:
        heading, drawn = panels(report)
    except ValueError as exc:
        sys.exit(f"{source}: {exc}")
    draw(heading, drawn, folder / source.stem)


def _again_with_matplotlib() -> int:
    if os.environ.get("PYTHONPATH") == str(LENT):
        return 1
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(LENT)]
    if not LENT.is_dir():
        subprocess.run([*pip, "matplotlib"], check=True, stdout=sys.stderr)
    env = os.environ | {"PYTHONPATH": str(LENT)}
    return subprocess.run([sys.executable, *sys.argv], env=env, check=False).returncode


def draw(heading: str, drawn: list[Panel], base: Path) -> None:
    """Write BASE.svg and BASE.png."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - found only by then

    plt.switch_backend("Agg")
    plt.rcParams.update(_style())
    width = 4.6 * len(drawn)
    figure, places = plt.subplots(1, len(drawn), figsize=(width, 3.6), squeeze=False)
    for axes, panel in zip(places[0], drawn, strict=True):
        (_lines if panel.along else _bars)(axes, panel)
        axes.set_title(panel.title)
        axes.set_ylabel(panel.unit)
        if "y" not in panel.log:
            axes.set_ylim(bottom=0)
    figure.suptitle(heading, fontweight="bold")
    figure.tight_layout()
    figure.savefig(base.with_suffix(".png"), dpi=120)
    # Without a date, and with ids that depend on nothing: equal data, equal file.
    figure.savefig(base.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    path = base.with_suffix(".svg")
    path.write_text(follow_the_reader(path.read_text()))
    print(f"{path}, {base.with_suffix('.png')}", file=sys.stderr)


def follow_the_reader(svg: str) -> str:
    """Have a picture change its colours where the reader's screen is dark."""
    rules = [
        f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    ]
    style = f"<style>@media(prefers-color-scheme:dark){{{''.join(rules)}}}</style>"
    head, tag, rest = svg.partition("<defs>")
    # Lines end without the blanks that matplotlib leaves there.
    text = f"{head}{style}\n {tag}{rest}"
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _style() -> Mapping[str, Any]:
    words = dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), INK)
    marks = dict.fromkeys(("xtick.color", "ytick.color"), PALE)
    paper = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    return {
        **words,
        **marks,
        **dict.fromkeys((*paper, "legend.facecolor"), PAPER),
        **dict.fromkeys(("axes.edgecolor", "grid.color", "legend.edgecolor"), RULE),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.family": "sans-serif",
        "font.size": 9.5,
        "svg.fonttype": "none",
        "svg.hashsalt": "hermes-pgmemory",
    }


def _colour(number: int, panel: Panel) -> dict[str, Any]:
    name = [*panel.series][number]
    dashed = "--" if name in panel.dashed else "-"
    return {"color": COLOURS[number], "linestyle": dashed, "label": name}


def _lines(axes: Any, panel: Panel) -> None:
    for number, values in enumerate(panel.series.values()):
        axes.plot([*values], [*values.values()], marker="o", **_colour(number, panel))
    if panel.at_least is not None:
        axes.axhline(panel.at_least, color=PALE, linewidth=0.8, linestyle=":")
    axes.set_xlabel(panel.along)
    axes.set(**{f"{axis}scale": "log" for axis in panel.log})
    if "x" in panel.log:
        axes.minorticks_off()
    places = [*next(iter(panel.series.values()))]
    if len(places) <= FEW:
        axes.set_xticks(places, [f"{place:,}" for place in places])
    axes.grid(visible=True)
    axes.legend()


def _bars(axes: Any, panel: Panel) -> None:
    count = len(panel.series)
    for number, (name, values) in enumerate(panel.series.items()):
        places = [place + (number + 0.5) / count * 0.8 for place in range(len(values))]
        bars = axes.bar(
            places, [*values.values()], 0.8 / count, color=COLOURS[number], label=name
        )
        axes.bar_label(bars, fmt="{:,g}")
    labels = [*max(panel.series.values(), key=len)]
    axes.set_xticks([place + 0.4 for place in range(len(labels))], labels)
    axes.set(**{f"{axis}scale": "log" for axis in panel.log})
    axes.legend()


if __name__ == "__main__":
    main()
