"""What the tests on the real host share beside fixtures."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Self

import psycopg
import pytest
from _quickstart.chat_model import ChatModel, split_memory, text_of
from _quickstart.gateway import Gateway
from _quickstart.host import Home
from psycopg.conninfo import conninfo_to_dict, make_conninfo

ARRIVAL_S = 20.0
"""Seconds after which a write that should be in the database is missing."""

UNNAMED = "hermes"
"""The theme of an agent that nobody named: the host's own workspace."""

MakeHome = Callable[..., Home]


def eventually(probe: Callable[[], Any], expected: Any) -> None:
    """Wait until *probe* returns *expected*; show both if it never does."""
    deadline = time.monotonic() + ARRIVAL_S
    while (found := probe()) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    if found != expected:
        pytest.fail(f"after {ARRIVAL_S:.0f} s there is\n{found!r}, not\n{expected!r}")


@dataclass(frozen=True)
class Database:
    """What is in a test's database, as plain values."""

    dsn: str

    def entries(self, theme: str, target: str = "memory") -> list[str]:
        """Return a theme's memory entries, sorted."""
        return self._column(
            "SELECT content FROM memory_entries"
            " WHERE agent_identity = %s AND target = %s"
            " AND retired_at IS NULL ORDER BY content",
            (theme, target),
        )

    def all_entries(self, target: str) -> list[str]:
        """Return the memory entries of all themes, sorted."""
        return self._column(
            "SELECT content FROM memory_entries WHERE target = %s"
            " AND retired_at IS NULL ORDER BY content",
            (target,),
        )

    def turns(self, theme: str) -> list[tuple[str, str]]:
        """Return a theme's conversation turns as (role, content), in order."""
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(
                "SELECT role, content FROM conversations"
                " WHERE agent_identity = %s ORDER BY id",
                (theme,),
            ).fetchall()

    def sessions(self, theme: str) -> set[str]:
        """Return the sessions of a theme's turns."""
        return set(
            self._column(
                "SELECT session_id FROM conversations WHERE agent_identity = %s",
                (theme,),
            )
        )

    def _column(self, query: str, parameters: tuple[str, ...]) -> list[str]:
        with psycopg.connect(self.dsn) as connection:
            return [row[0] for row in connection.execute(query, parameters)]


class Proxy:
    """A TCP way to a PostgreSQL server, to be shut and opened at will.

    While it is shut, connections are refused and open ones are cut: an outage, without
    stopping a server that other tests use.
    """

    def __init__(self, dsn: str) -> None:
        """Lead to the server and database of *dsn*."""
        self._target = conninfo_to_dict(dsn)
        self._mutex = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        self._port = 0
        self.open()

    @property
    def dsn(self) -> str:
        """The connection string of the same database, by this way."""
        here = {"host": "127.0.0.1", "port": self._port, "connect_timeout": 2}
        return make_conninfo(**{**self._target, **here})

    def open(self) -> None:
        """Let connections through; always on the same port."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._port = self._listener.getsockname()[1]
        self._spawn(self._accept, self._listener)

    def shut(self) -> None:
        """Cut and refuse connections."""
        with self._mutex:
            ends = [*self._sockets, *([self._listener] if self._listener else [])]
            self._listener = None
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        while self._threads:
            self._threads.pop().join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()

    def _spawn(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                self._spawn(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, self._connect() as server:
            with self._mutex:
                if self._listener is None:
                    return
                self._sockets |= {client, server}
            back = threading.Thread(target=_pump, args=(server, client))
            back.start()
            _pump(client, server)
            back.join()
            with self._mutex:
                self._sockets -= {client, server}

    def _connect(self) -> socket.socket:
        host = str(self._target.get("host", "127.0.0.1"))
        port = self._target.get("port", 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, int(port)))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Pass bytes on until either end is done, then end both."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


_asked = count(1)


def look_up(
    model: ChatModel, *calls: tuple[str, dict[str, Any]], words: str = "look-up"
) -> str:
    """Return a message that was never sent yet, upon which the model makes *calls*.

    It is short, as nothing else of it is: each word of it is embedded twice.
    """
    message = f"{words} {next(_asked):04d}"
    model.script[message] = calls
    return message


def call(tool: str, **arguments: Any) -> str:
    """Return a message line that makes the scripted model call *tool*."""
    return f"CALL {tool} {json.dumps(arguments)}"


def tool_answers(model: ChatModel, token: str) -> list[str]:
    """Return what tools answered in the turn whose user message holds *token*."""
    messages = _turn(model, token)[-1]
    return [text_of(m.get("content")) for m in messages if m["role"] == "tool"]


def injected(model: ChatModel, token: str) -> str:
    """Return the memory that the host added to the message that holds *token*."""
    said = [m for m in _turn(model, token)[0] if m["role"] == "user"][-1]
    return split_memory(text_of(said["content"]))[1]


def _turn(model: ChatModel, token: str) -> list[list[dict[str, Any]]]:
    """Return the messages of each request of one turn, oldest first."""
    conversations = [request["messages"] for request in list(model.requests)]
    return [
        messages
        for messages in conversations
        if token
        in [text_of(m.get("content")) for m in messages if m["role"] == "user"][-1]
    ]


def results_of(
    gateway: Gateway,
    model: ChatModel,
    theme: str,
    tool: str,
    *,
    history: Sequence[tuple[str, str]] = (),
    session_id: str | None = None,
    **arguments: Any,
) -> list[dict[str, Any]]:
    """Let the agent of *theme* call a recall tool; return the rows it was given."""
    message = look_up(model, (tool, arguments))
    gateway.ask(message, key=theme, history=history, session_id=session_id)
    [answer] = tool_answers(model, message)
    return json.loads(answer)["results"]
