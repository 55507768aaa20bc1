"""How a take-over of the original's database is told to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_pgmemory.store.adoption import Adopted

SHOWN = 5


def lines(adopted: Adopted) -> list[str]:
    """Say what was taken over, what was decided, and what is left to do."""
    entries, turns = adopted.entries, adopted.turns
    what = f"{entries.rows} entries and {turns.rows} turns"
    told = [f"taken over from hermes-memory-pgvector: {what}, with all their vectors"]
    told.append(
        "the indexes over all vectors are gone: a theme is searched exactly, and "
        "writes are not slowed down"
    )
    for count, what in (
        (entries.merged, "entries were duplicates under our names, and merged"),
        (
            entries.renamed + turns.renamed,
            "rows moved to the theme that agents of their name have now",
        ),
        (
            entries.owned + turns.owned,
            "rows belong to the contact whose key stood next to them, to no other",
        ),
        (
            entries.hidden + turns.hidden,
            "rows of direct messages or groups name no contact: kept, shown to nobody",
        ),
    ):
        if count:
            told.append(f"{count} {what}")
    if adopted.granted:
        names = ", ".join(adopted.granted)
        told.append(f"may do what agents need, because they could write: {names}")
    return told + _left_to_do(adopted)


def _left_to_do(adopted: Adopted) -> list[str]:
    both = (adopted.entries, adopted.turns)
    blank = sum(taken.blank for taken in both)
    bare = sum(taken.without_vector for taken in both)
    told = [
        f"next: hermes-pgvector remap {old!r} {new}"
        for old, new in adopted.elsewhere[:SHOWN]
    ]
    if len(adopted.elsewhere) > SHOWN:
        told.append(f"… and {len(adopted.elsewhere) - SHOWN} themes more, see --json")
    if blank:
        told.append(f"next: hermes-pgvector cleanup, for {blank} blank rows")
    if bare:
        told.append(f"next: hermes-pgvector backfill, for {bare} rows without vectors")
    return [*told, "next: hermes-pgvector convert, which halves the vectors"]
