"""Over standard input and output: the client starts us, and we end with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

import anyio
from mcp.server.stdio import stdio_server

from hermes_pgmemory.mcp_server.protocol import MemoryServer


def serve(server: MemoryServer) -> None:
    """Answer until the client closes its end or dies."""
    try:
        anyio.run(_serve, server)
    except* BrokenPipeError:
        pass  # it died before it had read its last answer


async def _serve(server: MemoryServer) -> None:
    with _streams() as (stdin, stdout):
        files = anyio.wrap_file(stdin), anyio.wrap_file(stdout)
        async with stdio_server(*files) as (read, write):
            options = server.sdk.create_initialization_options()
            await server.sdk.run(read, write, options)


@contextmanager
def _streams() -> Generator[tuple[TextIO, TextIO]]:
    """Take the client's two pipes for ourselves alone.

    What anyone else prints, or a server we start inherits, must not get between: it
    sees nothing on standard input, and its output goes to standard error.
    """
    sys.stdout.flush()
    taken = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a device
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    try:
        # A client's broken text is an answer's fault, not the end of the server.
        with (
            open(taken[0], encoding="utf-8", errors="replace") as stdin,  # noqa: PTH123
            open(taken[1], "w", encoding="utf-8", newline="\n") as stdout,  # noqa: PTH123
        ):
            yield stdin, stdout
    finally:
        sys.stdout.flush()
