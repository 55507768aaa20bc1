"""Delete rows that say nothing: blank ones, and exact duplicates.

The unique keys leave room for few duplicates. These are found:
- turns of one session with the same speaker, contact, words and instant: one turn that
  was counted as two, for example by two processes, or stored twice by an older
  release. Said again at another time is no duplicate;
- entries of one theme, file and contact that differ in white space only, and rows of
  nothing but white space: this package stores neither, an adopted database may hold
  them.

It also forgets how far journals were applied that nobody has applied for a year, where
the role may.

Of equal turns one with a vector stays, else the oldest row. Of equal entries a live one
stays before a retired one, then the one without outer white space, as the host's files
have it; it takes over the older creation time, the files, and a vector where it has
none. Without --execute nothing is deleted, only counted.

Examples:
  hermes-pgvector cleanup --theme marketing
  hermes-pgvector cleanup --execute
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hermes_pgmemory.cli import _database, _outcome, _progress
from hermes_pgmemory.cli._result import Result


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `cleanup`."""
    _database.add_theme(parser)
    _database.add_execute(parser)


def run(args: Namespace) -> Result:
    """Delete what is superfluous, or count it."""
    from hermes_pgmemory import maintenance  # noqa: PLC0415

    settings = _database.settings_of(args)
    with _database.opened(args, settings) as store, _progress.bar("cleanup") as advance:
        outcome = maintenance.cleanup(
            store, theme=args.theme, execute=args.execute, advance=advance
        )
    return _outcome.told(
        outcome,
        "blank rows and exact duplicates",
        facts={"theme": args.theme},
        does="deleted",
    )
