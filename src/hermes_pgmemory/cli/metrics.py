"""Serve the numbers of this HERMES_HOME to Prometheus, agents' processes included.

One exporter per home, as the user that runs the agents. It adds up what every process
counted, living or dead, and looks at the journal and the database. Ends on SIGTERM or
Ctrl-C. What each number means: --reference; alerts and a dashboard: deploy/.

Examples:
  hermes-pgvector metrics --port 9748
  hermes-pgvector metrics --once
"""

from __future__ import annotations

import signal
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from hermes_pgmemory.cli import _print
from hermes_pgmemory.cli._result import Result

if TYPE_CHECKING:
    from hermes_pgmemory.exporter import Exporter

PORT: Final = 9748
HOST: Final = "127.0.0.1"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `metrics`."""
    parser.add_argument(
        "--port",
        type=int,
        default=PORT,
        metavar="N",
        help=f"TCP port to answer on; 0 takes a free one (default: {PORT})",
    )
    parser.add_argument(
        "--host",
        default=HOST,
        metavar="ADDRESS",
        help=f"address to answer on; nothing asks for a password (default: {HOST})",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="print everything once and end, for a textfile collector",
    )
    parser.add_argument(
        "--reference",
        action="store_true",
        help="print every metric with its meaning as a Markdown table",
    )


def run(args: Namespace) -> Result:
    """Serve until told to end, or print once."""
    if args.reference:
        return _reference()
    from hermes_pgmemory.exporter import Exporter  # noqa: PLC0415

    exporter = Exporter(args.home)
    if args.once:
        return _once(exporter)
    return _serve(exporter, args.host, args.port)


def _once(exporter: Exporter) -> Result:
    families = list(exporter.collect())
    samples = [
        {"name": sample.name, "labels": sample.labels, "value": sample.value}
        for family in families
        for sample in family.samples
    ]
    return Result(data={"samples": samples}, text=exporter.text().rstrip("\n"))


def _serve(exporter: Exporter, host: str, port: int) -> Result:
    from hermes_pgmemory.exporter import Serving  # noqa: PLC0415

    ending = {signal.SIGTERM, signal.SIGINT}
    # Blocked, and so by every thread started from here on: only `sigwait` gets them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        serving = Serving(exporter, host=host, port=port)
        _print.say(f"answering on http://{host}:{serving.port}/metrics")
        signal.sigwait(ending)
        serving.close()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return Result(data={"host": host, "port": serving.port})


def _reference() -> Result:
    from hermes_pgmemory.metrics import declared  # noqa: PLC0415

    lines = ["| Metric | Kind | Label | What it tells |", "|---|---|---|---|"]
    for one in declared():
        values = ", ".join(f"`{value}`" for value in one.values)
        label = f"`{one.label}`: {values}" if one.label else ""
        lines.append(f"| `{one.name}` | {one.kind} | {label} | {one.help} |")
    data = {
        one.name: {
            "kind": one.kind,
            "help": one.help,
            "label": one.label or None,
            "values": list(one.values),
        }
        for one in declared()
    }
    return Result(data=data, text="\n".join(lines))
