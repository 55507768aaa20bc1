"""Bring the database's schema up to date; an administrator's act.

Safe to run again. A new database takes the embedding model's dimension, for which
the model is asked once, unless --model and --dimensions name it.

Agents need no right to create anything. With --admin-dsn the schema is brought up to
date as that role, and --runtime-role, or the user that the configured dsn names, is
granted what agents need: USAGE of the schema, and reading and changing the rows of our
own tables.

A database of hermes-memory-pgvector is taken over in place, in one transaction that
holds ACCESS EXCLUSIVE locks on its tables: no row or vector is lost, its agents wait,
and afterwards they are refused; so first bring every host to this package, whose writes
wait in their journals, and take a pg_dump. Nothing happens unless the configured model
makes vectors of the length that is stored. See docs/how-to/upgrading.md.

Examples:
  hermes-pgvector migrate --check
  hermes-pgvector migrate --admin-dsn - --runtime-role hermes
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from hermes_pgmemory.cli import _adoption, _database
from hermes_pgmemory.cli._result import Result

if TYPE_CHECKING:
    from hermes_pgmemory.config import Settings
    from hermes_pgmemory.models import EmbeddingModel


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
    parser.add_argument(
        "--admin-dsn",
        metavar="DSN",
        help="connect as this administrator instead; - reads it from standard input, "
        "where other users cannot see it",
    )
    parser.add_argument(
        "--runtime-role",
        metavar="NAME",
        help="grant this role what agents need",
    )


def run(args: Namespace) -> Result:
    """Apply what is missing and grant, or only say what is missing."""
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415

    paths = HomePaths(args.home)
    settings = _database.settings_of(args)
    admin = sys.stdin.readline().strip() if args.admin_dsn == "-" else args.admin_dsn
    if args.check:
        return _check(admin or _database.dsn_of(settings, paths, start=False))
    model = _model(args, settings)
    dsn = admin or _database.dsn_of(settings, paths, start=True)
    return _granted(_apply(dsn, settings, model), dsn, _grantee(args, settings))


def _grantee(args: Namespace, settings: Settings) -> str | None:
    """Return the role to grant to; None where nobody asked for it."""
    from hermes_pgmemory.store import roles  # noqa: PLC0415

    if args.runtime_role is not None:
        return args.runtime_role
    configured = settings.dsn.get_secret_value()
    if args.admin_dsn is None or not configured:
        return None
    return roles.user_of(configured)


def _granted(applied: Result, dsn: str, role: str | None) -> Result:
    from hermes_pgmemory.store import roles  # noqa: PLC0415

    if role is None:
        return applied
    roles.grant(dsn, role)
    return Result(
        data={**applied.data, "granted_to": role},
        text=f"{applied.text}\nrole {role} may do what agents need",
    )


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

    with closing(Store(dsn, pool_size=1)) as store, _database.explained(dsn):
        store.verify(timeout_s=CHECK_TIMEOUT_S)
    return Result(data={"applied": [], "current": True}, text="up to date")


def _apply(dsn: str, settings: Settings, model: EmbeddingModel) -> Result:
    from dataclasses import asdict  # noqa: PLC0415

    from hermes_pgmemory.store import migrate, requirements  # noqa: PLC0415

    done = migrate.upgrade(dsn, model, text_search_config=settings.text_search_config)
    lines = [f"applied {name}" for name in done.applied] or ["up to date"]
    indexable = model.dimension <= requirements.MAX_INDEXED_DIMENSION
    if done.applied and not indexable:
        lines.append(
            f"vectors of {model.dimension} numbers cannot be indexed "
            f"({requirements.MAX_INDEXED_DIMENSION} can): every search is exact"
        )
    data: dict[str, Any] = {"applied": done.applied, "current": True}
    if done.adopted is not None:
        data["adopted"] = asdict(done.adopted)
        lines += _adoption.lines(done.adopted)
    return Result(data=data, text="\n".join(lines))
