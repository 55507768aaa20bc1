"""What `doctor` looks at: one function for each check, in the order of `CHECKS`.

A check takes the `World` and returns a `Finding`, or raises one of our own errors. What
several need is fetched by the first that asks, once, and its failure is remembered: the
others then say that they cannot tell. Whatever is not well comes with what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

from hermes_pgmemory.cli._doctor import _database, _here, _model
from hermes_pgmemory.cli._doctor._world import Cause, Finding, Level, World
from hermes_pgmemory.errors import PgMemoryError, Unavailable

__all__ = ["CHECKS", "Finding", "Level", "World", "examine"]

Check = Callable[[World], Finding]

CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("python", _here.python),
    ("packages", _here.packages),
    ("host", _here.host),
    ("door", _here.door),
    ("provider", _here.provider),
    ("settings", _here.settings),
    ("permissions", _here.permissions),
    ("disk", _here.disk),
    ("journal", _here.journal),
    ("database", _database.database),
    ("schema", _database.schema),
    ("role", _database.role),
    ("pgvector", _database.extension),
    ("server settings", _database.server_settings),
    ("clock", _database.clock),
    ("embedder", _model.embedder),
    ("batches", _model.batches),
    ("meaning", _model.meaning),
    ("model", _model.identity),
    ("recall", _model.recall),
)


def examine(world: World) -> Iterator[tuple[str, Finding]]:
    """Yield every check's name and finding; what is down hides nothing else."""
    with ExitStack() as stack:
        world.closing = stack
        for name, check in CHECKS:
            world.checking = name
            yield name, _found(check, world)


def _found(check: Check, world: World) -> Finding:
    try:
        return check(world)
    except Cause as cause:
        return Finding(Level.UNKNOWN, f"cannot be told: {cause}")
    except Unavailable as exc:
        return Finding(Level.UNAVAILABLE, str(exc), "see that it runs, then try again")
    except PgMemoryError as exc:
        return Finding(Level.WRONG, str(exc), "change what it names, then try again")
    except OSError as exc:
        detail = f"{exc.filename}: {exc.strerror}"
        return Finding(Level.WRONG, detail, "see that this user may use it")
