"""Write what the database holds into files: to move it, to keep it, to read it.

`jsonl` is one file of JSON Lines with entries, turns, delegations and themes, with all
their times and where they came from; `hermes-pgvector import jsonl` reads it. Vectors
are left out unless --vectors asks for them: they serve only the model that made them.
`files` is a folder of MEMORY.md and USER.md, as the host writes them, one home a theme.

Rows that belong to single contacts stay out, unless --private takes them along. They
say whose they are by a hash that only the key of this database can make; --key-file
writes it, for the import into another database. Who has both can try phone numbers.

Examples:
  hermes-pgvector export memory.jsonl
  hermes-pgvector export --theme sales --theme work two-themes.jsonl
  hermes-pgvector export --format files memories/
  hermes-pgvector export --private --key-file subject.key memory.jsonl
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_pgmemory.cli import _database, _print, _progress
from hermes_pgmemory.cli._result import Result, Table

if TYPE_CHECKING:
    from hermes_pgmemory.moving.going_out import Counts


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `export`."""
    parser.add_argument(
        "dest",
        metavar="DEST",
        help="file to write, replaced when the new one is whole; - is standard output; "
        "with --format files a new folder",
    )
    parser.add_argument(
        "--theme",
        metavar="NAME",
        action="append",
        default=[],
        help="only this theme, spelled as `stats` spells it; may be said several times",
    )
    parser.add_argument(
        "--format",
        choices=("jsonl", "files"),
        default="jsonl",
        help="JSON Lines, or the host's memory files (default: jsonl)",
    )
    parser.add_argument(
        "--vectors", action="store_true", help="include the active model's vectors"
    )
    parser.add_argument(
        "--private",
        action="store_true",
        help="include what belongs to single contacts, of direct messages and groups",
    )
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="write the key of this database's contacts there, for `import --key-file`",
    )


def run(args: Namespace) -> Result:
    """Write a file, or a folder."""
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    if args.format == "files" and (args.private or args.vectors or args.dest == "-"):
        raise BadRequest(
            "--format files writes a folder, without private rows and vectors: memory "
            "files cannot tell whose an entry is"
        )
    if args.dest == "-" and args.json:
        raise BadRequest("--json and - would both write to standard output")
    if args.key_file and not args.private:
        raise BadRequest("--key-file is of use with --private only")
    return _files(args) if args.format == "files" else _lines(args)


def _files(args: Namespace) -> Result:
    from hermes_pgmemory.moving import going_out  # noqa: PLC0415

    settings = _database.settings_of(args)
    with _database.opened(args, settings) as store, _progress.bar("export") as advance:
        going_out.check(store, args.theme, private=args.private)
        counts = going_out.files_of(
            store, themes=args.theme, folder=Path(args.dest), advance=advance
        )
    return _told(args, counts)


def _lines(args: Namespace) -> Result:
    from hermes_pgmemory.moving import going_out, keys  # noqa: PLC0415

    settings = _database.settings_of(args)
    with _database.opened(args, settings) as store:
        facts = store.verify(timeout_s=_database.VERIFY_TIMEOUT_S)
        going_out.check(store, args.theme, private=args.private)
        if args.key_file:
            keys.write(args.key_file, facts.subject_key)
        with _written(args.dest) as write, _progress.bar("export") as advance:
            counts = going_out.lines_of(
                store,
                facts,
                themes=args.theme,
                private=args.private,
                vectors=args.vectors,
                write=write,
                advance=advance,
            )
    return _told(args, counts)


@contextmanager
def _written(dest: str) -> Generator[Callable[[str], object]]:
    """Yield what takes the text of *dest*, which is there when all of it is."""
    if dest == "-":
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        yield sys.stdout.write
        return
    from hermes_pgmemory.part_files import part_of  # noqa: PLC0415

    path = Path(dest)
    with part_of(path, tell=_print.say) as fresh:
        with fresh.open("w", encoding="utf-8", newline="\n") as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)


def _told(args: Namespace, counts: Counts) -> Result:
    rows = [
        (theme, kind, f"{count}") for (theme, kind), count in sorted(counts.items())
    ]
    themes: dict[str, dict[str, int]] = {}
    for (theme, kind), count in sorted(counts.items()):
        themes.setdefault(theme, {})[kind] = count
    result = Result(
        data={
            "dest": args.dest,
            "format": args.format,
            "private": args.private,
            "rows": counts.total(),
            "themes": themes,
        },
        tables=[Table(title="exported", head=("theme", "what", "rows"), rows=rows)],
        text=f"{counts.total()} rows written to {args.dest}",
    )
    if args.dest != "-":
        return result
    # Standard output is the export itself.
    _print.say(f"{counts.total()} rows written")
    return Result(data={})
