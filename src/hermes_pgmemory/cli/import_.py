"""Take in what other memories hold: files, past sessions, exports, peers' databases.

Without --execute nothing is kept, only counted: what is new, what is there already, and
what is left out and why. With it, rows are kept in batches, beside living agents. What
was kept stays when it is interrupted; run it again and it goes on. A second run adds
nothing: what an agent has stored itself is the same row.

Texts are cleaned and secrets redacted as in an agent's own writes, and the same rules
say to whose memory they belong: what was said in a private chat is its contact's. Rows
keep their times and tell where they came from; they go without vectors, which
`backfill` or the agents make good.

docs/how-to/moving.md tells what each source must look like.

Examples:
  hermes-pgvector import files ~/.hermes
  hermes-pgvector import sessions --execute
  hermes-pgvector import jsonl memory.jsonl --execute
  hermes-pgvector import database --from-dsn-env OLD_DSN --execute
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_pgmemory.cli import _database, _print, _progress
from hermes_pgmemory.cli._result import Result, Status, Table

if TYPE_CHECKING:
    from hermes_pgmemory.config import Settings
    from hermes_pgmemory.moving.coming_in import Report
    from hermes_pgmemory.moving.sources import Source
    from hermes_pgmemory.moving.values import Aim
    from hermes_pgmemory.store import DatabaseFacts, Store

NAMES = (
    *("jsonl", "files", "sessions", "holographic", "mem0", "hindsight", "honcho"),
    *("hexus", "database"),
)
"""Those of `moving.sources.SOURCES`, which are slow to import; a test compares."""
TABLE = "mem0"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `import`."""
    parser.add_argument(
        "source", choices=NAMES, metavar="SOURCE", help=f"one of {', '.join(NAMES)}"
    )
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="files, or homes of the host (default, where homes are read: this home)",
    )
    parser.add_argument(
        "--theme",
        metavar="NAME",
        default="",
        help="the theme of what names none itself; private chats stay private",
    )
    parser.add_argument(
        "--platform",
        metavar="NAME",
        default="",
        help="user ids in the source are contacts of this platform, as telegram",
    )
    parser.add_argument(
        "--assistant",
        metavar="NAME",
        action="append",
        default=[],
        help="a peer of honcho that is the agent (default: hermes and assistant)",
    )
    parser.add_argument(
        "--from-dsn-env",
        metavar="NAME",
        help="the environment variable that holds the source's connection string",
    )
    parser.add_argument(
        "--table",
        metavar="NAME",
        default=TABLE,
        help=f"mem0's table there (default: {TABLE})",
    )
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="first take over the key that `export --key-file` wrote; only into a "
        "database that has no private rows and no agent has used, as the tables' owner",
    )
    _database.add_admin_dsn(parser)
    parser.add_argument(
        "--execute",
        action="store_true",
        help="do it; without this, only count what would be done",
    )


def run(args: Namespace) -> Result:
    """Import, or rehearse it."""
    from hermes_pgmemory.moving.coming_in import Arrival  # noqa: PLC0415

    source = _source(args)
    settings = _database.settings_of(args)
    with (
        _opened(args, settings) as (store, facts),
        _progress.bar("import") as advance,
    ):
        arrival = Arrival(
            store,
            source=source.name,
            execute=args.execute,
            advance=advance,
            model=facts.model,
            repeats=source.repeats,
        )
        report = arrival.run(source.read(args.paths, _aim(args, facts)))
    return _told(args, report)


def _source(args: Namespace) -> Source:
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415
    from hermes_pgmemory.moving.sources import SOURCES  # noqa: PLC0415

    source = next(one for one in SOURCES if one.name == args.source)
    if args.from_dsn_env and not source.is_database:
        databases = ", ".join(one.name for one in SOURCES if one.is_database)
        raise BadRequest(f"--from-dsn-env goes with {databases}")
    if not args.paths and not args.from_dsn_env and "default:" not in source.reads:
        raise BadRequest(f"{args.source} needs a PATH: {source.reads}")
    return source


def _aim(args: Namespace, facts: DatabaseFacts) -> Aim:
    from hermes_pgmemory.key_text import fold  # noqa: PLC0415
    from hermes_pgmemory.moving.values import Aim  # noqa: PLC0415

    more: dict[str, Any] = {}
    if args.assistant:
        more["assistants"] = tuple(args.assistant)
    return Aim(
        home=args.home,
        key=facts.subject_key,
        model=facts.model and facts.model.name,
        theme=args.theme,
        platform=fold(args.platform),
        dsn=_dsn(args),
        table=args.table,
        **more,
    )


def _dsn(args: Namespace) -> str:
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    if not args.from_dsn_env:
        return ""
    dsn = os.environ.get(args.from_dsn_env, "")
    if not dsn:
        raise BadRequest(f"the environment has no {args.from_dsn_env}")
    return dsn


@contextmanager
def _opened(
    args: Namespace, settings: Settings
) -> Generator[tuple[Store, DatabaseFacts]]:
    """Open the database, with another's key where that is asked for."""
    from contextlib import closing  # noqa: PLC0415

    from hermes_pgmemory.moving import keys  # noqa: PLC0415
    from hermes_pgmemory.store import Store  # noqa: PLC0415

    dsn = _database.admin_dsn_of(args)
    owned = (
        closing(Store(dsn, pool_size=1)) if dsn else _database.opened(args, settings)
    )
    with owned as store:
        facts = store.verify(timeout_s=_database.VERIFY_TIMEOUT_S)
        if args.key_file:
            from dataclasses import replace  # noqa: PLC0415

            key = keys.read(args.key_file)
            if args.execute and key != facts.subject_key:
                store.moving.take_key(key, timeout_s=_database.VERIFY_TIMEOUT_S)
            facts = replace(facts, subject_key=key)
        yield store, facts


def _told(args: Namespace, report: Report) -> Result:
    from hermes_pgmemory.moving.sources import jsonl  # noqa: PLC0415

    skipped = report.skipped
    broken = skipped[jsonl.CUT_OFF] + skipped[jsonl.DAMAGED]
    if args.execute and report.new:
        _print.say("what came without vectors is found by its words until `backfill`")
    verb = "kept" if args.execute else "would be kept"
    add = "" if args.execute else "; add --execute to do it"
    text = f"{report.new} rows {verb}, {report.there} are there already{add}"
    return Result(
        data=_data(args, report),
        tables=_tables(report),
        text=text,
        status=Status.FAILED if broken else Status.DONE,
    )


def _data(args: Namespace, report: Report) -> dict[str, Any]:
    themes: dict[str, dict[str, Any]] = {}
    for (theme, kind), tally in sorted(report.tallies.items()):
        themes.setdefault(theme, {})[kind] = {
            "new": tally.new,
            "there": tally.there,
            "skipped": tally.skipped.total(),
        }
    return {
        "source": args.source,
        "executed": report.executed,
        "new": report.new,
        "there": report.there,
        "skipped": report.skipped.total(),
        "themes": themes,
        "reasons": dict(report.skipped),
    }


def _tables(report: Report) -> list[Table]:
    counted = [
        (theme, kind, f"{t.new}", f"{t.there}", f"{t.skipped.total()}")
        for (theme, kind), t in sorted(report.tallies.items())
    ]
    head = ("theme", "what", "new", "there already", "left out")
    tables = [Table(title="found", head=head, rows=counted)]
    if report.skipped:
        why = [(reason, f"{count}") for reason, count in sorted(report.skipped.items())]
        tables.append(Table(title="left out because", rows=why))
    return tables
