"""Whether the server runs, and as which process. Reads only; never waits long."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Final

from hermes_pgmemory.embedded.layout import Layout, leads_to_us

CONNECT_S: Final = 1.0
"""A local socket takes a connection at once, or not at all."""

STATE_LINE: Final = 7
"""Where the pid file tells what the server is doing, counted from 0."""

ELSEWHERE: Final = 0
"""The listener is in another container, whose processes have no number here."""

BUSY: Final = -1
"""Somebody listens, but whoever it is has its queue full."""

PEER: Final = "iII"
"""struct ucred: process, user and group of who listens."""


def ready(layout: Layout) -> int | None:
    """Return what `listener` does, but only for a server that takes connections now.

    The pid file alone may be left from a crash, and a server that recovers listens
    before it serves; so both must agree.
    """
    try:
        lines = layout.pid_file.read_text("utf-8", "replace").split("\n")
    except OSError:
        return None
    if len(lines) <= STATE_LINE or lines[STATE_LINE].strip() != "ready":
        return None
    return listener(layout)


def listener(layout: Layout) -> int | None:
    """Return the process that listens at the socket, or ELSEWHERE, or BUSY.

    None also where another account listens than the one that owns the data, or the way
    to the socket is not ours alone: whoever that is, it is not our server.
    """
    try:
        owner = layout.data.stat().st_uid
    except FileNotFoundError:
        return None
    if not leads_to_us(layout):
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(CONNECT_S)
        try:
            client.connect(str(layout.socket))
        except BlockingIOError:
            return BUSY
        except OSError:
            return None
        size = struct.calcsize(PEER)
        peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    pid, uid, _ = struct.unpack(PEER, peer)
    return pid if uid == owner else None


def noted_pid(layout: Layout) -> int | None:
    """Return the process that the pid file names; it need not live any more."""
    try:
        first = layout.pid_file.read_text("utf-8", "replace").partition("\n")[0]
    except FileNotFoundError:
        return None
    # A single-user server notes its process as a negative number.
    number = first.strip().removeprefix("-")
    return int(number) if number.isdecimal() else None


def exists(pid: int) -> bool:
    """Tell whether any process has this *pid*."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def may_serve(pid: int, data: Path) -> bool:
    """Tell whether process *pid* is a PostgreSQL server that may be using *data*."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    program, *arguments = [os.fsdecode(word) for word in line.split(b"\0")]
    if Path(program).name != "postgres":
        return False
    if "-D" not in arguments[:-1]:
        return True
    return os.path.realpath(arguments[arguments.index("-D") + 1]) == str(data)
