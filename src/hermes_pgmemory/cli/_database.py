"""What commands on the database share: where it is, and who may do what in it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_pgmemory.config import Settings
    from hermes_pgmemory.paths import HomePaths
    from hermes_pgmemory.store import Store

VERIFY_TIMEOUT_S = 30.0


def add_theme(parser: ArgumentParser) -> None:
    """Declare `--theme`."""
    parser.add_argument(
        "--theme",
        metavar="NAME",
        help="only this theme, spelled as `stats` spells it (default: all)",
    )


def add_execute(parser: ArgumentParser) -> None:
    """Declare `--execute`."""
    parser.add_argument(
        "--execute",
        action="store_true",
        help="do it; without this, do the same and take every part of it back, so that "
        "the numbers are exact (rows are locked for a moment, as in the real run)",
    )


def add_admin_dsn(parser: ArgumentParser) -> None:
    """Declare `--admin-dsn`."""
    parser.add_argument(
        "--admin-dsn",
        metavar="DSN",
        help="connect as the tables' owner instead; - reads it from standard input, "
        "where other users cannot see it",
    )


def admin_dsn_of(args: Namespace) -> str:
    """Return what `--admin-dsn` says, or ""."""
    if args.admin_dsn == "-":
        return sys.stdin.readline().strip()
    return args.admin_dsn or ""


def settings_of(args: Namespace) -> Settings:
    """Return the settings of `--home`.

    Raises:
        ConfigError: Something is wrong with them.
    """
    from hermes_pgmemory.config import parse  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415
    from hermes_pgmemory.settings_file import load_section  # noqa: PLC0415

    return parse(load_section(HomePaths(args.home).config)).checked()


def dsn_of(settings: Settings, paths: HomePaths, *, start: bool) -> str:
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


def owner_dsn_of(args: Namespace) -> str:
    """Return the connection string of `--admin-dsn`, else that of `--home`."""
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415

    if dsn := admin_dsn_of(args):
        return dsn
    return dsn_of(settings_of(args), HomePaths(args.home), start=True)


def started(settings: Settings, paths: HomePaths) -> str:
    """Return where the database is; bring the embedded one up, but make none.

    Raises:
        SchemaError: There is none yet.
    """
    from hermes_pgmemory.errors import SchemaError  # noqa: PLC0415

    if not settings.dsn.get_secret_value() and not paths.server.is_dir():
        raise SchemaError("no database yet: run `hermes-pgvector setup`")
    return dsn_of(settings, paths, start=True)


@contextmanager
def opened(
    args: Namespace, settings: Settings, *, model: str | None = None
) -> Generator[Store]:
    """Open the database that agents of `--home` use, and check its schema.

    With a *model*, vectors of that one may be written, as long as it is the active one.

    Raises:
        SchemaError: It is not ready, or names the role and what it lacks.
    """
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415
    from hermes_pgmemory.store import Store  # noqa: PLC0415

    dsn = started(settings, HomePaths(args.home))
    with closing(Store(dsn, model=model, pool_size=1)) as store, explained(dsn):
        store.verify(timeout_s=VERIFY_TIMEOUT_S)
        yield store


@contextmanager
def explained(dsn: str) -> Generator[None]:
    """Say which role lacks what, where that is why the schema cannot be used."""
    from hermes_pgmemory.errors import SchemaError  # noqa: PLC0415
    from hermes_pgmemory.store import roles  # noqa: PLC0415

    try:
        yield
    except SchemaError as exc:
        raise roles.explain(exc, dsn) from exc
