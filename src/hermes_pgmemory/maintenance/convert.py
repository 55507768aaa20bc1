"""Turn the vectors of an adopted database into halfvec, beside living agents.

The old vectors stay in use until all have a counterpart; then the columns change places
in one short transaction for each table. Cut off at any point, it has lost nothing, and
goes on when it is run again.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from hermes_pgmemory.errors import DatabaseUnavailable, SchemaError
from hermes_pgmemory.maintenance import Advance, Count, Outcome, in_parts
from hermes_pgmemory.store import convert as store
from hermes_pgmemory.store.convert import Conversion, Survey
from hermes_pgmemory.store.upkeep import NAMES

PASSES: Final = 5
"""Rows that `remap` moves behind our back are found in the next pass."""

opened = store.opened


def survey(conversion: Conversion) -> list[Survey]:
    """Look what is to be done, and whether it can be.

    Raises:
        SchemaError: Some vectors do not fit into 16-bit floats.
    """
    found = conversion.survey()
    if unfit := sum(table.unfit for table in found):
        raise SchemaError(
            f"{unfit} vectors are too long for 16-bit floats: keep the vector columns, "
            "or delete these vectors (embedding and model_id) and embed the rows anew "
            "with `hermes-pgvector backfill`"
        )
    return found


def convert(
    conversion: Conversion, found: list[Survey], *, execute: bool, advance: Advance
) -> Outcome:
    """Convert what *found* says, or only count it.

    Raises:
        DatabaseUnavailable: A lock was not to be had; running again goes on.
    """
    tables = {NAMES[one.table]: Count(affected=one.waiting) for one in found}
    if not execute:
        return Outcome(executed=False, tables=tables)
    for one in found:
        if not one.converted:
            done = _convert(conversion, one, advance)
            tables[NAMES[one.table]].affected = done
    if not all(one.converted for one in found):
        conversion.analyze()
    return Outcome(executed=True, tables=tables)


def _convert(conversion: Conversion, one: Survey, advance: Advance) -> int:
    """Convert one table; return how many vectors this run filled in."""
    run = conversion.open_run(one.table)
    if not one.begun:
        conversion.begin(one.table)
    done = 0
    for _ in range(PASSES):
        done += _fill(conversion, one, run, advance)
        if conversion.is_complete(one.table):
            break
    else:
        raise DatabaseUnavailable("rows keep moving between themes; run this again")
    conversion.index(one.table)
    conversion.finish(one.table)
    conversion.close_run(run)
    return done


def _fill(conversion: Conversion, one: Survey, run: int, advance: Advance) -> int:
    filled = 0
    for theme in conversion.themes():
        part = partial(conversion.fill, one.table, theme, run=run)
        for done in in_parts(part):
            filled += done.affected
            advance(done.affected)
    return filled
