"""Serve this memory to any client of the Model Context Protocol.

Over standard input and output by default, as clients start their servers; it ends
with its client. With --http over streamable HTTP at /mcp, until SIGTERM or Ctrl-C:
then every request must bring the bearer token, and may name its theme in the header
X-Hermes-Session-Key, under the rules for agents. On loopback a token may be left out;
whoever can log in to this machine can then read and write every theme.

Needs the extra: pip install 'hermes-pgmemory[mcp]'.

Examples:
  hermes-pgvector mcp --theme marketing
  hermes-pgvector mcp --http --port 9750 --token-env MEMORY_TOKEN
  hermes-pgvector mcp --http --host 0.0.0.0 --token-file token --allow-host memory.lan
"""

from __future__ import annotations

import logging
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from hermes_pgmemory.cli import _print
from hermes_pgmemory.cli._result import Result

if TYPE_CHECKING:
    from hermes_pgmemory.mcp_server.protocol import MemoryServer
    from hermes_pgmemory.mcp_server.token import Token

PORT: Final = 9750
HOST: Final = "127.0.0.1"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `mcp`."""
    parser.add_argument(
        "--theme",
        metavar="NAME",
        help="the theme of every connection (default: by HTTP the header's, else "
        "default)",
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="offer no tool that writes: neither remember nor forget",
    )
    parser.add_argument(
        "--http",
        action="store_true",
        help="serve streamable HTTP, not standard input and output",
    )
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
        help="address to answer on; others than loopback need a token, and TLS in "
        f"front of it (default: {HOST})",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which clients call this host; may be repeated (default: "
        "loopback's names and --host)",
    )
    token = parser.add_mutually_exclusive_group()
    token.add_argument(
        "--token-env",
        metavar="NAME",
        help="name of the environment variable that holds the bearer token",
    )
    token.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file that holds the bearer token; only its owner may read it",
    )


def run(args: Namespace) -> Result:
    """Serve until the client, or a signal, ends it."""
    from hermes_pgmemory.errors import BadRequest, ConfigError  # noqa: PLC0415

    if not args.http and (args.token_env or args.token_file or args.allow_host):
        raise BadRequest("tokens and --allow-host are for --http")
    try:
        from hermes_pgmemory.mcp_server.entry import Entry  # noqa: PLC0415
        from hermes_pgmemory.mcp_server.protocol import MemoryServer  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        if exc.name != "mcp":
            raise
        missing = {"mcp": "not installed: pip install 'hermes-pgmemory[mcp]'"}
        raise ConfigError(missing) from None
    with _log_of_ours_only(debug=args.debug):
        token = _token(args) if args.http else None
        with closing(Entry(args.home, args.theme)) as entry:
            server = MemoryServer(entry, read_only=args.read_only)
            return _http(args, server, token) if args.http else _stdio(server)


def _stdio(server: MemoryServer) -> Result:
    from hermes_pgmemory.mcp_server import stdio  # noqa: PLC0415

    # At once: a thread waits for input, and the journal keeps what was accepted.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    stdio.serve(server)
    return Result(data={"transport": "stdio"})


def _http(args: Namespace, server: MemoryServer, token: Token | None) -> Result:
    from hermes_pgmemory.mcp_server.http import PATH, Serving  # noqa: PLC0415

    # Not blocked as elsewhere: the local model's process would inherit that.
    ended: SimpleQueue[None] = SimpleQueue()
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda _, __: ended.put(None))
    serving = Serving(
        server,
        host=args.host,
        port=args.port,
        token=token,
        names=args.allow_host,
        when_ended=lambda: ended.put(None),
    )
    try:
        _print.say(f"answering on http://{args.host}:{serving.port}{PATH}")
        if token is None:
            _print.say("without a token: everyone on this machine is let in")
        ended.get()
    finally:
        serving.close()
    return Result(data={"host": args.host, "port": serving.port})


def _token(args: Namespace) -> Token | None:
    from hermes_pgmemory.mcp_server.token import Token  # noqa: PLC0415

    if args.token_env:
        return Token.of_environment(args.token_env)
    return Token.of_file(args.token_file) if args.token_file else None


@contextmanager
def _log_of_ours_only(*, debug: bool) -> Generator[None]:
    """Tell of this memory's troubles; the SDK's log may quote what clients send."""
    if debug:
        yield
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("hermes-pgvector: %(message)s"))
    added = {"": logging.NullHandler(), "hermes_pgmemory": handler}
    for name, one in added.items():
        logging.getLogger(name).addHandler(one)
    try:
        yield
    finally:
        for name, one in added.items():
            logging.getLogger(name).removeHandler(one)
