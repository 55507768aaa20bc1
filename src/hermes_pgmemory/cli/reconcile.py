"""Retire what MEMORY.md and USER.md of this home hold no more.

Agents do this by themselves a few seconds after a file has changed, and import what is
new. But where a file lost most of its entries at once, is empty or is gone, they keep
recalling the entries until this command confirms that they are meant to be gone.

Retired entries are not recalled. They are kept, and come back when the file holds them
again. Entries that another home's file holds too stay in use, and are counted. Without
--execute nothing is retired, only counted.

A home that was moved or restored is, to its rows, a copy: the old one may still hold
what is gone here. --replaces-ancestors says that it does not exist any more.

Examples:
  hermes-pgvector reconcile
  hermes-pgvector reconcile --execute
  hermes-pgvector reconcile --replaces-ancestors --execute
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hermes_pgmemory.cli import _database, _print
from hermes_pgmemory.cli._result import Result, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_pgmemory.memory_files import MemoryFile
    from hermes_pgmemory.models import FileVerdict, Target
    from hermes_pgmemory.paths import HomePaths
    from hermes_pgmemory.store import Store

TIMEOUT_S = 60.0


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `reconcile`."""
    parser.add_argument(
        "--execute",
        action="store_true",
        help="do it; without this, only say what would be done",
    )
    parser.add_argument(
        "--replaces-ancestors",
        action="store_true",
        help="this home took the place of the one it was copied from, which is gone",
    )


def run(args: Namespace) -> Result:
    """Compare both files with their rows, and bring the rows in line."""
    from hermes_pgmemory.codec import ENTRY_RECORDS  # noqa: PLC0415
    from hermes_pgmemory.errors import JournalUnavailable  # noqa: PLC0415
    from hermes_pgmemory.journal import waiting  # noqa: PLC0415
    from hermes_pgmemory.models import Target  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415

    paths = HomePaths(args.home)
    settings = _database.settings_of(args)
    files = [_read(paths, target) for target in Target]
    if waiting(paths.journal, ENTRY_RECORDS):
        raise JournalUnavailable(
            "writes of memory entries wait in the journal and come first: let an agent "
            "or `hermes-pgvector replay` store them"
        )
    with _database.opened(args, settings) as store:
        verdicts = [
            _reconcile(
                store,
                paths,
                file,
                execute=args.execute,
                replaces=args.replaces_ancestors,
            )
            for file in files
        ]
    return _told(args, files, verdicts)


def _told(
    args: Namespace, files: Sequence[MemoryFile], verdicts: Sequence[FileVerdict]
) -> Result:
    from hermes_pgmemory.memory_files import FILES  # noqa: PLC0415

    rows = [
        (FILES[file.target], len(file.texts), len(said.gone), len(said.present))
        for file, said in zip(files, verdicts, strict=True)
    ]
    shared = sum(row.shared for said in verdicts for row in said.gone)
    retired = sum(row[2] for row in rows) - shared
    if shared:
        moved = not args.replaces_ancestors and any(file.ids[1:] for file in files)
        _print.say(
            f"{shared} entries are gone from here and stay in use: another home's file "
            "holds them"
            + ("; if that home was moved here, add --replaces-ancestors" * moved)
        )
    return Result(
        data={
            "executed": args.execute,
            "retired": retired,
            "held_elsewhere": shared,
            "files": {
                name: {"entries": entries, "gone": gone, "back": back}
                for name, entries, gone, back in rows
            },
        },
        tables=[
            Table(
                title="memory files",
                head=("file", "entries", "gone from it", "back in it"),
                rows=[(name, *map(str, counts)) for name, *counts in rows],
            )
        ],
        text=f"{retired} entries are no longer recalled from this home's files"
        if args.execute
        else f"{retired} entries would be retired; add --execute to do it",
    )


def _read(paths: HomePaths, target: Target) -> MemoryFile:
    from hermes_pgmemory import memory_files  # noqa: PLC0415
    from hermes_pgmemory.errors import ConfigError  # noqa: PLC0415

    name = memory_files.FILES[target]
    try:
        file = memory_files.read(paths, target)
    except OSError as exc:
        raise ConfigError({name: f"cannot be read: {exc.strerror}"}) from exc
    if file.unreadable:
        why = f"{file.unreadable} entries are not UTF-8; mend or remove them first"
        raise ConfigError({name: why})
    return file


def _reconcile(
    store: Store, paths: HomePaths, file: MemoryFile, *, execute: bool, replaces: bool
) -> FileVerdict:
    from functools import partial  # noqa: PLC0415

    from hermes_pgmemory import memory_files  # noqa: PLC0415
    from hermes_pgmemory.errors import JournalUnavailable  # noqa: PLC0415

    judge = partial(memory_files.compare, file, confirmed=True, replaces=replaces)
    if not execute:
        rows = store.file_rows(file.ids, replaces=replaces, timeout_s=TIMEOUT_S)
        return judge(rows)
    name = memory_files.FILES[file.target]
    _, verdict = store.reconcile(
        file.ids,
        judge=judge,
        unchanged=lambda: memory_files.stamp_of(paths.memories / name) == file.stamp,
        at=file.changed_at,
        replaces=replaces,
        timeout_s=TIMEOUT_S,
    )
    if verdict is None:
        raise JournalUnavailable(f"{name} was changed at this moment; run it again")
    return verdict
