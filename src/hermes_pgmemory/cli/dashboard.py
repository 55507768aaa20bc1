"""Show in the browser what the fleet remembers, how it is found, and how it does.

Prints an address that lets one browser in, once. It answers on loopback only and
changes nothing: PostgreSQL is told that every transaction is read-only, and reads as
the role hermes_pgmemory_reader where there is one that this user may become. With
`dsn_read` set it reads from that standby. From another machine, use `ssh -L`.

Texts that belong to one contact are hidden, only their number is told. Needs the extra
`dashboard`, which hermes-agent brings along. Ends on SIGTERM or Ctrl-C.

Examples:
  hermes-pgvector dashboard
  hermes-pgvector dashboard --port 0 --show-private
"""

from __future__ import annotations

import signal
from argparse import ArgumentParser, Namespace
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from hermes_pgmemory.cli import _database, _print
from hermes_pgmemory.cli._result import Result

if TYPE_CHECKING:
    from hermes_pgmemory.dashboard import Sources

PORT: Final = 9749
NEEDED: Final = ("jinja2", "starlette", "uvicorn")


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `dashboard`."""
    parser.add_argument(
        "--port",
        type=int,
        default=PORT,
        metavar="N",
        help=f"TCP port to answer on; 0 takes a free one (default: {PORT})",
    )
    parser.add_argument(
        "--show-private",
        action="store_true",
        help="also show texts that belong to one contact, as in direct messages",
    )


def run(args: Namespace) -> Result:
    """Serve until told to end."""
    from hermes_pgmemory.errors import ConfigError  # noqa: PLC0415

    lacking = [name for name in NEEDED if find_spec(name) is None]
    if lacking:
        install = "run `pip install 'hermes-pgmemory[dashboard]'`"
        raise ConfigError({", ".join(lacking): f"not installed: {install}"})
    from hermes_pgmemory.dashboard import Serving  # noqa: PLC0415

    ending = {signal.SIGTERM, signal.SIGINT}
    # Blocked, and so by every thread started from here on: only `sigwait` gets them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        with closing(_sources(args)) as sources:
            serving = Serving(sources, port=args.port)
            _print.say(f"open {serving.url}")
            signal.sigwait(ending)
            serving.close()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return Result(data={"port": serving.port})


def _sources(args: Namespace) -> Sources:
    """Open what the pages tell of; a database that is down is one of these things."""
    from hermes_pgmemory.dashboard import Sources  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415

    settings = _database.settings_of(args)
    paths = HomePaths(args.home)
    standby = settings.dsn_read.get_secret_value()
    dsn = standby or _database.started(settings, paths)
    return Sources(paths, settings, dsn, show_private=args.show_private)
