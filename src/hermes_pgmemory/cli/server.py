"""Start, stop or look at the embedded PostgreSQL of this HERMES_HOME.

Agents start it when they need it. `stop` ends this user's local embedding models, too;
all of them come back on demand.

Example:
  hermes-pgvector server stop
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hermes_pgmemory.cli._result import Result, Table


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `server`."""
    parser.add_argument(
        "action",
        choices=("start", "stop", "status"),
        help="what to do; whatever it is, what runs afterwards is shown",
    )


def run(args: Namespace) -> Result:
    """Do what was asked and show what is running afterwards."""
    from hermes_pgmemory import survey  # noqa: PLC0415
    from hermes_pgmemory.embed import stop_local_server  # noqa: PLC0415
    from hermes_pgmemory.embedded import EmbeddedServer  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415

    server = EmbeddedServer(HomePaths(args.home).server)
    stopped: list[str] = []
    if args.action == "start":
        server.ensure_running()
    elif args.action == "stop":
        if server.stop():
            stopped.append("postgresql")
        if stop_local_server():
            stopped.append("model")
    parts = {"postgresql": survey.server(args.home), "model": survey.local_model()}
    data = {name: part.as_data() for name, part in parts.items()}
    rows = [(name, part.state, part.detail) for name, part in parts.items()]
    return Result(
        data={**data, "stopped": stopped}, tables=[Table(title="servers", rows=rows)]
    )
