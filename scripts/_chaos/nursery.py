"""Where a run's processes come from: one that has imported everything already.

A fresh interpreter takes most of a second of a processor until it has imported the
package, and a run starts a hundred of them. A forked one is as much a process: it is
killed, ends and leaves its journal behind like any other.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

_ORDER_BYTES: Final = 65_536


class Child:
    """One process of the nursery; as much of `subprocess.Popen` as is needed."""

    def __init__(self, pid: int, stdin: IO[str], life: int) -> None:
        """Keep its ends of two pipes; *life* reads to the end when it is dead."""
        self.stdin = stdin
        self._pid = pid
        self._life: int | None = life

    def kill(self) -> None:
        """Kill it, unless it is dead."""
        if not self._is_dead(0):
            os.kill(self._pid, signal.SIGKILL)

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when it is dead.

        Raises:
            subprocess.TimeoutExpired: It is not, in time.
        """
        if not self._is_dead(timeout_s):
            raise subprocess.TimeoutExpired(f"process {self._pid}", timeout_s or 0)

    def close(self) -> None:
        """Close its standard input and wait until it is dead."""
        with suppress(BrokenPipeError):
            self.stdin.close()
        self.wait()

    def _is_dead(self, timeout_s: float | None) -> bool:
        if self._life is None:
            return True
        poll = select.poll()
        poll.register(self._life)
        if not poll.poll(None if timeout_s is None else timeout_s * 1000):
            return False
        os.close(self._life)
        self._life = None
        return True


class Nursery:
    """Starts writers and drainers."""

    def __init__(self, errors: IO[bytes]) -> None:
        """Start the process that has all imported; *errors* takes what all complain."""
        self._line, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(there.fileno())],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                # An interrupt from the keyboard is for the driver, who ends the others.
                start_new_session=True,
            )

    def start(self, what: str, *args: object) -> Child:
        """Start `writer` or `drainer` with *args*.

        Raises:
            BrokenPipeError: The nursery is gone.
        """
        order = json.dumps([what, *map(str, args)]).encode()
        stdin, ours = os.pipe()
        life, theirs = os.pipe()
        socket.send_fds(self._line, [order], [stdin, theirs])
        os.close(stdin)
        os.close(theirs)
        pid = self._line.recv(20)
        if not pid:
            raise BrokenPipeError("the nursery is gone")
        return Child(int(pid), os.fdopen(ours, "w"), life)

    def close(self) -> None:
        """End it; its children are others' to end."""
        self._line.close()
        self._process.wait()


def _born(line: socket.socket) -> list[str]:
    """Return in every child that is asked for, with its order; [] at the end."""
    while True:
        order, pipes, _, _ = socket.recv_fds(line, _ORDER_BYTES, 2)
        _bury()
        if not order:
            return []
        pid = os.fork()
        if not pid:
            break
        for pipe in pipes:
            os.close(pipe)
        line.sendall(str(pid).encode())
    line.close()
    os.setsid()
    # The other pipe stays open for as long as this process lives.
    os.dup2(pipes[0], 0)
    os.close(pipes[0])
    return list(json.loads(order))


def _bury() -> None:
    """Wait for the dead; the driver knows of them by their pipes."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _main() -> None:
    """Import everything, then be the mother, and in time each of the children."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from _chaos import drainer, writer  # noqa: PLC0415

    mains: dict[str, Callable[[], object]] = {
        "writer": writer.main,
        # Not through the interpreter's end: a thread still reads standard input.
        "drainer": lambda: os._exit(drainer.main()),
    }
    order = _born(socket.socket(fileno=int(sys.argv[1])))
    if order:
        sys.argv[:] = order
        mains[order[0]]()


if __name__ == "__main__":
    _main()
