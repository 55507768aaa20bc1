"""Set everything up, once: door, database, model, schema, config.yaml.

Without --dsn a private PostgreSQL in HERMES_HOME serves, without --embed-url a local
model. Settings given here are used, checked and then written to config.yaml. Safe to
run again: what is done is left alone, what failed is tried again.

Examples:
  hermes-pgvector setup
  hermes-pgvector setup --dsn 'host=db.internal dbname=hermes_memory user=hermes'
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from hermes_pgmemory.cli import _print
from hermes_pgmemory.cli._result import Result, Status, status_of


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `setup`."""
    parser.add_argument(
        "--dsn",
        metavar="DSN",
        help="PostgreSQL connection string; - reads it from standard input, where "
        "other users cannot see it",
    )
    parser.add_argument("--embed-url", metavar="URL", help="embedding endpoint")
    parser.add_argument("--embed-model", metavar="NAME", help="model to ask it for")
    parser.add_argument(
        "--force",
        action="store_true",
        help="move another plugin's directory of the same name aside",
    )


def run(args: Namespace) -> Result:
    """Run the setup, telling each step on standard error."""
    from hermes_pgmemory import setup  # noqa: PLC0415

    report = setup.run(
        args.home,
        changes=_changes(args),
        force=args.force,
        report=lambda step: _print.say(setup.line(step)),
    )
    return Result(
        data={
            "ok": report.error is None,
            "error": None if report.error is None else str(report.error),
            "steps": [
                {"step": step.name, "outcome": step.outcome, "detail": step.detail}
                for step in report.steps
            ],
        },
        text="" if report.error else "pgvector memory is on; start a new session",
        status=Status.DONE if report.error is None else status_of(report.error),
    )


def _changes(args: Namespace) -> dict[str, Any]:
    given = {
        "dsn": sys.stdin.readline().strip() if args.dsn == "-" else args.dsn,
        "embed_url": args.embed_url,
        "embed_model": args.embed_model,
    }
    return {key: value for key, value in given.items() if value is not None}
