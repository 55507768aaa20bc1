"""Embed the rows that were stored without a vector.

They come from an embedder that was down, from `embed_on_write: false`, or from another
program. Turns that `conversation_embed_policy` leaves out, and retired entries, stay
without. A text that the model refuses costs only itself: it is counted, stays findable
by its words, and is tried again next time.

Runs beside living agents and locks nothing while the model works. What is embedded is
stored batch by batch; running it again goes on. The configured model must be the one
that the database's vectors came from, and stay it: where `reembed` switches to another
meanwhile, this ends.

Example:
  hermes-pgvector backfill
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli import _database, _print, _progress
from hermes_pgmemory.cli._result import Result, Status, Table

if TYPE_CHECKING:
    from hermes_pgmemory.config import Settings
    from hermes_pgmemory.embed import Embedder
    from hermes_pgmemory.maintenance.backfill import Backfilled
    from hermes_pgmemory.store import Store

BATCH: Final = 64
LARGEST_BATCH: Final = 1024


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `backfill`."""
    _database.add_theme(parser)
    parser.add_argument(
        "--batch",
        type=int,
        default=BATCH,
        metavar="N",
        help=f"texts in one request, 1 to {LARGEST_BATCH} (default: {BATCH})",
    )


def run(args: Namespace) -> Result:
    """Embed what waits, with a bar, and tell what came of it."""
    from hermes_pgmemory.embed import make_embedder  # noqa: PLC0415
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    if not 1 <= args.batch <= LARGEST_BATCH:
        raise BadRequest(f"--batch must be from 1 to {LARGEST_BATCH}")
    settings = _database.settings_of(args)
    with (
        closing(make_embedder(settings)) as embedder,
        _database.opened(args, settings, model=embedder.name) as store,
    ):
        return _told(_embed(args, settings, store, embedder), args)


def _embed(
    args: Namespace, settings: Settings, store: Store, embedder: Embedder
) -> Backfilled:
    from hermes_pgmemory.maintenance.backfill import (  # noqa: PLC0415
        Backfill,
        Patience,
        check_model,
    )
    from hermes_pgmemory.maintenance.shelf import Bare  # noqa: PLC0415

    patience = Patience(
        retries=settings.embed_write_retries, pause_s=settings.embed_write_backoff
    )
    check_model(store, embedder)
    work = Backfill(
        Bare(store, theme=args.theme), embedder, batch=args.batch, patience=patience
    )
    with _progress.bar("backfill", total=work.waiting) as advance:
        return work.run(advance)


def _told(outcome: Backfilled, args: Namespace) -> Result:
    if outcome.stopped_by is not None:
        _print.complain(f"{outcome.stopped_by}; run it again to go on")
    if outcome.refused:
        _print.say(f"{outcome.refused} texts were refused, the first: {outcome.reason}")
    counts: dict[str, dict[str, int]] = {
        table.value: {
            "waiting": tally.waiting,
            "embedded": tally.embedded,
            "refused": tally.refused,
        }
        for table, tally in outcome.tables.items()
    }
    data: dict[str, Any] = {
        "theme": args.theme,
        "embedded": outcome.embedded,
        "refused": outcome.refused,
        "finished": outcome.stopped_by is None,
        "tables": counts,
    }
    rows = [(name, *map(str, count.values())) for name, count in counts.items()]
    head = ("table", "waiting", "embedded", "refused")
    return Result(
        data=data,
        tables=[Table(title="rows without vectors", head=head, rows=rows)],
        text=f"{outcome.embedded} rows embedded",
        status=Status.UNAVAILABLE if outcome.stopped_by else Status.DONE,
    )
