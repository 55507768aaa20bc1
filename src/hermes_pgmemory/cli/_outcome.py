"""How a maintenance run is told: counts by table, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermes_pgmemory.cli._result import Result, Table

if TYPE_CHECKING:
    from hermes_pgmemory.maintenance import Outcome


def told(
    outcome: Outcome, title: str, *, facts: Mapping[str, Any], does: str
) -> Result:
    """Return what a command that changes rows hands back.

    Args:
        outcome: The counts.
        title: Above them.
        facts: What `--json` tells of the arguments.
        does: Completes "rows" and "rows would be", like "deleted".
    """
    counts = outcome.tables.items()
    text = (
        f"{outcome.affected} rows {does}"
        if outcome.executed
        else f"{outcome.affected} rows would be {does}; add --execute to do it"
    )
    return Result(
        data={
            **facts,
            "executed": outcome.executed,
            "affected": outcome.affected,
            "dropped_dupes": sum(count.dropped for _, count in counts),
            "tables": {
                name: {"affected": count.affected, "dropped_dupes": count.dropped}
                for name, count in counts
            },
        },
        tables=[
            Table(
                title=title,
                head=("table", does, "of them duplicates"),
                rows=[(name, f"{c.affected}", f"{c.dropped}") for name, c in counts],
            )
        ],
        text=text,
    )
