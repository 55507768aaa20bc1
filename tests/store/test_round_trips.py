"""How often a search waits for its server: a far server makes each one felt."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import ExitStack

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_pgmemory.store import connection
from hermes_pgmemory.store.search import SHORT_BYTES


class Relay:
    """A server's other address, which counts how often a client waited for it.

    That is how often the server spoke after its client had.
    """

    def __init__(self, dsn: str) -> None:
        self.waits = 0
        self._target = conninfo_to_dict(dsn)
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.dsn = make_conninfo(
            dsn, host=host, port=port, sslmode="disable", gssencmode="disable"
        )
        self._thread = threading.Thread(target=self._relay)
        self._thread.start()

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()

    def _connect(self) -> socket.socket:
        host, port = self._target["host"], self._target.get("port", 5432)
        if not f"{host}".startswith("/"):
            return socket.create_connection((f"{host}", int(port or 5432)))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _relay(self) -> None:
        """Carry one connection's bytes to and fro until it ends."""
        with ExitStack() as stack:
            client = stack.enter_context(self._listener.accept()[0])
            server = stack.enter_context(self._connect())
            selector = stack.enter_context(selectors.DefaultSelector())
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            asked = False
            while True:
                for key, _ in selector.select():
                    said = key.fileobj.recv(1 << 16)
                    if not said:
                        return
                    self.waits += asked and key.fileobj is server
                    asked = key.fileobj is client
                    key.data.sendall(said)


@pytest.fixture
def relay(dsn, superuser):
    if superuser.info.server_version < 170000:
        pytest.skip("an older server's transactions are in no pipeline")
    relay = Relay(dsn)
    yield relay
    relay.close()


@pytest.fixture
def far(memory, store_on, relay):
    """The same memory, whose store waits are counted."""
    near, memory.store = memory.store, store_on(relay.dsn, pool_size=1)
    memory.entries("warm")
    memory.turns("warm")
    relay.waits = 0
    yield memory
    memory.store.close()
    memory.store = near


@pytest.fixture(autouse=True)
def rows(memory):
    memory.apply(
        memory.add("a cup of tea"),
        memory.add("the pot " + "and its lid " * (SHORT_BYTES // 10)),
        memory.turn("a cup of tea"),
    )


def test_entries_take_one(far, relay, contents_of):
    assert contents_of(far.entries("tea")) == ["a cup of tea"]
    assert relay.waits == 1


def test_long_entries_take_another(far, relay):
    assert [len(hit.content) > SHORT_BYTES for hit in far.entries("pot")] == [True]
    assert relay.waits == 2


def test_turns_take_two_for_what_was_said_around_them(far, relay, contents_of):
    assert contents_of(far.turns("tea")) == ["a cup of tea"]
    assert relay.waits == 2


def test_one_more_after_a_pause(far, relay, monkeypatch):
    monkeypatch.setattr(connection, "ALIVE_S", 0)
    assert far.entries("tea")
    assert relay.waits == 2
