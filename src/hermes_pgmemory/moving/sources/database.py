"""Another database of ours, read where it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.moving.sources.jsonl import arriving
from hermes_pgmemory.moving.values import Aim, Item
from hermes_pgmemory.store import Store

TIMEOUT_S: Final = 60.0


def read(paths: Sequence[Path], aim: Aim) -> Iterator[Item]:
    """Yield every row of the database at `aim.dsn`; private ones if the key is ours."""
    if paths or not aim.dsn:
        raise BadRequest("name the other database by --from-dsn-env, and no path")
    with closing(Store(aim.dsn, pool_size=1, key="--from-dsn-env")) as store:
        facts = store.verify(timeout_s=TIMEOUT_S)
        same_key = facts.subject_key == aim.key
        for theme in store.moving.themes(timeout_s=TIMEOUT_S):
            for page in store.moving.pages(theme, private=True, model=None):
                for row in page:
                    yield arriving(row, same_key=same_key)
