"""Move the database to another embedding model, or another length of vectors.

Without --execute nothing is changed: it counts the rows, tries the model on some of
them and says how long it will take. With it, every row is embedded anew, batch by
batch, beside living agents, who recall by the old vectors until all new ones are there.
Then both change places with the active model, in one short transaction. Agents that are
configured for the new model notice within a minute, without a restart; the others go on
without vectors and say so, until plugins.pgvector.embed_model names it. What they write
meanwhile gets new vectors, too.

Killed at any point it has lost nothing; run it again and it goes on. It needs the
tables' owner. Locks: ACCESS EXCLUSIVE on both tables, when it begins and when it
switches, for a catalog change each, waiting 2 s at a time.

The old vectors stay until --drop-old --execute. --abort takes back a move that has not
switched yet.

Examples:
  hermes-pgvector reembed --to nomic-embed-text --embed-url http://localhost:11434
  hermes-pgvector reembed --execute --rate 200
  hermes-pgvector reembed --drop-old --execute
"""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli import _database, _print, _progress
from hermes_pgmemory.cli._result import Result, Status

if TYPE_CHECKING:
    from hermes_pgmemory.config import Settings
    from hermes_pgmemory.embed import Embedder
    from hermes_pgmemory.maintenance.reembed import Manner, Moved, Plan
    from hermes_pgmemory.store.reembed import Move

BATCH: Final = 64
LARGEST_BATCH: Final = 1024


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `reembed`."""
    parser.add_argument(
        "--to",
        metavar="MODEL",
        help="the new model (default: the one now configured)",
    )
    parser.add_argument(
        "--embed-url",
        metavar="URL",
        help="its endpoint (default: the one now configured); '' is this host's own",
    )
    parser.add_argument(
        "--embed-api-key-env",
        metavar="NAME",
        help="environment variable with its bearer key (default: the one now "
        "configured; none where --embed-url names another host)",
    )
    parser.add_argument(
        "--embed-protocol",
        choices=("auto", "openai", "ollama"),
        help="its dialect (default: the one now configured; auto on another host)",
    )
    parser.add_argument(
        "--dimension",
        type=int,
        metavar="N",
        help="refuse to begin unless its vectors have this length",
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=BATCH,
        metavar="N",
        help=f"texts in one request, 1 to {LARGEST_BATCH} (default: {BATCH})",
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=math.inf,
        metavar="N",
        help="texts a second at most (default: as many as it takes)",
    )
    parser.add_argument(
        "--execute", action="store_true", help="do it; without this, only estimate"
    )
    parser.add_argument(
        "--drop-old",
        action="store_true",
        help="drop the vectors that the last move replaced; with --to, after the move",
    )
    parser.add_argument(
        "--abort", action="store_true", help="take back a move that has not switched"
    )
    parser.add_argument(
        "--admin-dsn",
        metavar="DSN",
        help="connect as the tables' owner instead; - reads it from standard input, "
        "where other users cannot see it",
    )


def run(args: Namespace) -> Result:
    """Move, estimate, drop or take back."""
    from hermes_pgmemory.maintenance import reembed  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415

    _check(args)
    settings = _settings(args)
    admin = sys.stdin.readline().strip() if args.admin_dsn == "-" else args.admin_dsn
    dsn = admin or _database.dsn_of(settings, HomePaths(args.home), start=True)
    with reembed.opened(dsn) as move:
        if args.abort:
            return _abort(move)
        if args.drop_old and args.to is None:
            return _drop_old(move, execute=args.execute)
        result = _move(args, settings, move, dsn)
        if args.drop_old and args.execute and result.status is Status.DONE:
            _drop_old(move, execute=True)
        return result


def _check(args: Namespace) -> None:
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    if not 1 <= args.batch <= LARGEST_BATCH:
        raise BadRequest(f"--batch must be from 1 to {LARGEST_BATCH}")
    if not args.rate > 0:
        raise BadRequest("--rate must be more than 0")
    if args.abort and (args.execute or args.drop_old):
        raise BadRequest("--abort goes with neither --execute nor --drop-old")


def _settings(args: Namespace) -> Settings:
    """Return the configured settings, with what the arguments replace."""
    settings = _database.settings_of(args)
    given = {
        "embed_model": args.to,
        "embed_url": args.embed_url,
        "embed_api_key_env": args.embed_api_key_env,
        "embed_protocol": args.embed_protocol,
    }
    replaced = {key: value for key, value in given.items() if value is not None}
    new_url = settings.embed_url if args.embed_url is None else args.embed_url
    if _server(new_url) != _server(settings.embed_url):
        # The key was given for the old one, and is a secret to any other.
        replaced = {"embed_api_key_env": "", "embed_protocol": "auto"} | replaced
    if args.to is not None and args.to != settings.embed_model:
        # They belong to the model that is left.
        replaced |= {"embed_query_prefix": None, "embed_document_prefix": None}
    return settings.model_copy(update=replaced)


def _server(url: str) -> tuple[str, str]:
    """Return scheme and host with port of an endpoint; blank is this host's own."""
    from hermes_pgmemory.embed.urls import parse_url  # noqa: PLC0415

    url = url.strip()
    return (
        (url.partition(":")[0].lower(), parse_url(url, "auto").host)
        if url
        else ("", "")
    )


def _move(args: Namespace, settings: Settings, move: Move, dsn: str) -> Result:
    from hermes_pgmemory.embed import make_embedder  # noqa: PLC0415
    from hermes_pgmemory.maintenance import reembed  # noqa: PLC0415
    from hermes_pgmemory.maintenance.backfill import Patience  # noqa: PLC0415

    manner = reembed.Manner(
        batch=args.batch,
        rate=args.rate,
        patience=Patience(
            retries=settings.embed_write_retries, pause_s=settings.embed_write_backoff
        ),
    )
    with closing(make_embedder(settings)) as embedder:
        planned = reembed.plan(move, embedder, dimension=args.dimension, manner=manner)
        if not args.execute:
            return _estimated(planned)
        _print.say(_announced(planned))
        return _told(planned, _do(move, embedder, manner, planned, dsn))


def _do(
    move: Move, embedder: Embedder, manner: Manner, planned: Plan, dsn: str
) -> Moved:
    from hermes_pgmemory.maintenance import reembed  # noqa: PLC0415
    from hermes_pgmemory.store import Store  # noqa: PLC0415

    with (
        closing(Store(dsn, model=planned.target.name, pool_size=1)) as late,
        _progress.bar("reembed", total=planned.rows) as advance,
    ):
        return reembed.Reembed(move, embedder, manner, dsn=dsn).run(
            planned, late=late, advance=advance
        )


def _facts(planned: Plan) -> dict[str, Any]:
    active, seconds = planned.state.active, planned.seconds
    speed = planned.texts_per_s
    return {
        "from": active and {"model": active.name, "dimension": active.dimension},
        "to": {"model": planned.target.name, "dimension": planned.target.dimension},
        "resumed": planned.state.target is not None,
        "waiting": {table.value: rows for table, rows in planned.waiting.items()},
        "texts_per_s": round(speed, 1) if speed and math.isfinite(speed) else None,
        "estimate_s": None if seconds is None else round(seconds, 1),
    }


def _announced(planned: Plan) -> str:
    to = f"{planned.target.name} ({planned.target.dimension} dimensions)"
    if planned.is_done:
        return f"the database's vectors are {to} already"
    goes = "go on to" if planned.state.target is not None else "move to"
    return f"{planned.rows} rows {goes} {to}, about {_spell(planned.seconds)}"


def _spell(seconds: float | None) -> str:
    if seconds is None:
        return "no time"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _estimated(planned: Plan) -> Result:
    add = "" if planned.is_done else "; add --execute to do it"
    return Result(
        data={"executed": False, **_facts(planned)}, text=_announced(planned) + add
    )


def _told(planned: Plan, moved: Moved) -> Result:
    if moved.stopped_by is not None:
        _print.complain(f"{moved.stopped_by}; run it again to go on")
    if moved.refused:
        _print.say(f"{moved.refused} texts were refused, the first: {moved.reason}")
    if moved.switched:
        _print.say(
            f"agents need plugins.pgvector.embed_model: {planned.target.name}; the old "
            "vectors stay until `hermes-pgvector reembed --drop-old --execute`"
        )
    return Result(
        data={
            "executed": True,
            **_facts(planned),
            "embedded": moved.embedded,
            "refused": moved.refused,
            "indexed": moved.indexed,
            "switched": moved.switched,
            "finished": moved.stopped_by is None,
        },
        text=f"{moved.embedded} rows embedded",
        status=Status.UNAVAILABLE if moved.stopped_by else Status.DONE,
    )


def _abort(move: Move) -> Result:
    target = move.state().target
    if target is None:
        return Result(data={"aborted": False}, text="there is no move to take back")
    move.abort()
    return Result(
        data={"aborted": True}, text=f"the move to {target.name} was taken back"
    )


def _drop_old(move: Move, *, execute: bool) -> Result:
    has_old = move.state().has_old
    if has_old and execute:
        move.drop_old()
    text = "there are no old vectors"
    if has_old:
        text = (
            "the old vectors are gone; VACUUM FULL gives their place back to the disk"
            if execute
            else "old vectors would be dropped; add --execute to do it"
        )
    return Result(data={"executed": execute, "dropped": has_old and execute}, text=text)
