"""Who is forgotten: a theme, or the contact behind some hashes; and what is theirs.

In the database it is told by columns, in this home by records of its files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from hermes_pgmemory import journal
from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.lineage import Lineage
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.store import Store
from hermes_pgmemory.store.forget import Held
from hermes_pgmemory.subjects import known_key, readable, remember_key

TIMEOUT_S: Final = 600.0
"""For one theme's transaction, and for looking at whole tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whom:
    """Who is forgotten: one theme, or the contact behind some subjects."""

    theme: str | None = None
    subjects: frozenset[str] = frozenset()
    opened: Callable[[str], str] = field(default=str, compare=False)
    """Opens what is sealed in a record of this home, see `subjects`."""

    def owns(self, text: str) -> bool:
        """Tell whether a record of the journal, or of the lineage, is theirs."""
        record = record_of(self.opened(text))
        if self.theme is not None:
            return record.get("theme") == self.theme
        return record.get("subject") in self.subjects

    def is_row(self, owner: str, texts: Sequence[str]) -> bool:
        """Tell whether a row is theirs: it came since they were forgotten."""
        if self.theme is not None:
            return owner == self.theme
        return not self.subjects.isdisjoint(texts)


def find(
    store: Store, paths: HomePaths, *, subjects: Sequence[str]
) -> tuple[Whom, list[Held]]:
    """Return the contact behind those of *subjects* that anything is stored for.

    Raises:
        BadRequest: There is nothing of them, in the database or this home, and they
            were not forgotten lately, by a run that may have been killed.
    """
    held = store.forgetting.held(subjects, timeout_s=TIMEOUT_S)
    if known_key(paths) is None and paths.journal.is_dir():
        remember_key(paths, store.verify(timeout_s=TIMEOUT_S).subject_key)
    opened = partial(readable, paths)
    asked = Whom(subjects=frozenset(subjects), opened=opened)
    here = [*journaled(paths, asked), *in_lineage(paths, asked)]
    told = {record_of(opened(text)).get("subject") for text in here}
    known = {one.subject for one in held} | {one for one in told if one}
    known |= store.forgetting.forgotten(subjects, timeout_s=TIMEOUT_S)
    if not known and len(subjects) > 1:
        raise BadRequest(
            "nothing is stored of this contact: give the id as the platform spells it, "
            "the session key, or --subject with what the column subject of a row says"
        )
    return Whom(subjects=frozenset(known or subjects), opened=opened), held


def journaled(paths: HomePaths, who: Whom) -> Iterator[str]:
    """Yield their records in all journals of this home."""
    for slot in journal.erasable(paths.journal):
        for kind in journal.KINDS:
            yield from filter(who.owns, slot.texts(kind))


def in_lineage(paths: HomePaths, who: Whom) -> list[str]:
    """Return what this home notes of their sessions."""
    return list(filter(who.owns, Lineage(paths.state).texts()))


def record_of(text: str) -> Mapping[str, Any]:
    """Read a record of this home; nothing, where no version could."""
    try:
        record: object = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", record) if isinstance(record, dict) else {}
