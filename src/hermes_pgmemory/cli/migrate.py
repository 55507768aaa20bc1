"""Bring the database's schema up to date; an administrator's act.

Safe to run again. A new database takes the embedding model's dimension, for which
the model is asked once, unless --model and --dimensions name it.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hermes_pgmemory.cli._result import Result

if TYPE_CHECKING:
    from hermes_pgmemory.config import Settings
    from hermes_pgmemory.models import EmbeddingModel
    from hermes_pgmemory.paths import HomePaths


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `migrate`."""
    parser.add_argument(
        "--check",
        action="store_true",
        help="change nothing; exit 1 if something is to be done",
    )
    parser.add_argument(
        "--model", metavar="NAME", help="embedding model of a new database"
    )
    parser.add_argument(
        "--dimensions", type=int, metavar="N", help="length of that model's vectors"
    )


def run(args: Namespace) -> Result:
    """Apply what is missing, or only say what that is."""
    from hermes_pgmemory.config import parse  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415
    from hermes_pgmemory.settings_file import load_section  # noqa: PLC0415

    paths = HomePaths(args.home)
    settings = parse(load_section(paths.config)).checked()
    if args.check:
        return _check(_dsn(settings, paths, start=False))
    model = _model(args, settings)
    return _apply(_dsn(settings, paths, start=True), settings, model)


def _dsn(settings: Settings, paths: HomePaths, *, start: bool) -> str:
    """Return where the database is; with *start*, bring the embedded one up."""
    from hermes_pgmemory.embedded import EmbeddedServer  # noqa: PLC0415
    from hermes_pgmemory.errors import DatabaseUnavailable  # noqa: PLC0415

    if dsn := settings.dsn.get_secret_value():
        return dsn
    server = EmbeddedServer(paths.server)
    if start:
        server.ensure_running()
    elif not server.status().running:
        raise DatabaseUnavailable(
            "the embedded server is not running: run `hermes-pgvector server start`"
        )
    return server.dsn


def _model(args: Namespace, settings: Settings) -> EmbeddingModel:
    """Return the model that a new database is made for."""
    from hermes_pgmemory import setup  # noqa: PLC0415
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    if (args.model is None) != (args.dimensions is None):
        raise BadRequest("--model and --dimensions go together")
    if args.model is None:
        return setup.probe_model(settings)
    return setup.named_model(args.model, args.dimensions, settings)


def _check(dsn: str) -> Result:
    from contextlib import closing  # noqa: PLC0415

    from hermes_pgmemory.setup import CHECK_TIMEOUT_S  # noqa: PLC0415
    from hermes_pgmemory.store import Store  # noqa: PLC0415

    with closing(Store(dsn, pool_size=1)) as store:
        store.verify(timeout_s=CHECK_TIMEOUT_S)
    return Result(data={"applied": [], "current": True}, text="up to date")


def _apply(dsn: str, settings: Settings, model: EmbeddingModel) -> Result:
    from hermes_pgmemory.store import migrate  # noqa: PLC0415

    applied = migrate.apply(dsn, model, text_search_config=settings.text_search_config)
    text = "\n".join(f"applied {name}" for name in applied) or "up to date"
    return Result(data={"applied": applied, "current": True}, text=text)
