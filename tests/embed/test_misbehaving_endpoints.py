"""Each kind of failure by a real server on loopback, over real sockets."""

from __future__ import annotations

import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hermes_pgmemory.embed.client import MAX_CALLS
from hermes_pgmemory.errors import EmbedderUnavailable

IMPATIENT_S = 0.3
PATIENT_S = 20.0


@pytest.fixture
def embedder(misbehaviour, embedder_for):
    return embedder_for(None, embed_url=misbehaviour.url, embed_protocol="openai")


def hang(misbehaviour):
    return lambda _handler: misbehaviour.released.wait()


def drip(misbehaviour, start: bytes):
    """Send *start*, then a byte at a time, each well within any read's timeout."""

    def act(handler):
        handler.wfile.write(start)
        handler.close_connection = True
        while not misbehaviour.released.wait(0.02):
            handler.wfile.write(b"x")

    return act


def torn(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"data":[')
    handler.close_connection = True


def reset(handler):
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.close_connection = True
    # The file over the socket would keep it open.
    handler.rfile.close()
    handler.connection.close()


def say_nothing(handler):
    handler.close_connection = True


def talk_nonsense(handler):
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    handler.close_connection = True


class TestSilence:
    def test_an_answer_that_never_comes_is_given_up(self, misbehaviour, embedder):
        misbehaviour.act = hang(misbehaviour)
        with pytest.raises(EmbedderUnavailable, match=r"within 0\.3 s"):
            embedder.embed_query("tea", timeout_s=IMPATIENT_S)
        assert len(misbehaviour.bodies) == 1

    def test_the_next_call_does_not_wait_for_the_one_given_up(
        self, misbehaviour, embedder
    ):
        misbehaviour.act = hang(misbehaviour)
        with pytest.raises(EmbedderUnavailable):
            embedder.embed_query("tea", timeout_s=IMPATIENT_S)
        misbehaviour.act = misbehaviour.embed
        assert embedder.embed_query("tea", timeout_s=PATIENT_S)

    @pytest.mark.parametrize(
        "start",
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX-Endless: ",
            b"HTTP/1.1 500 Oops\r\nContent-Length: 100000000\r\n\r\n",
        ],
        ids=["body", "header", "error"],
    )
    def test_a_slow_drip_does_not_outlast_the_timeout(
        self, misbehaviour, embedder, start
    ):
        misbehaviour.act = drip(misbehaviour, start)
        with pytest.raises(EmbedderUnavailable):
            embedder.embed_query("tea", timeout_s=IMPATIENT_S)

    def test_the_call_that_was_given_up_ends_in_mid_drip(
        self, misbehaviour, embedder, wait_until
    ):
        start = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"
        misbehaviour.act = drip(misbehaviour, start)
        with pytest.raises(EmbedderUnavailable):
            embedder.embed_query("tea", timeout_s=IMPATIENT_S)
        wait_until(
            lambda: "pgmemory-embed" not in {t.name for t in threading.enumerate()}
        )

    def test_calls_that_hang_are_bounded_in_number(
        self, misbehaviour, embedder, wait_until
    ):
        def act(handler):
            misbehaviour.released.wait()
            misbehaviour.embed(handler)

        misbehaviour.act = act
        with ThreadPoolExecutor(MAX_CALLS) as threads:
            calls = [
                threads.submit(embedder.embed_query, "tea", timeout_s=PATIENT_S)
                for _ in range(MAX_CALLS)
            ]
            wait_until(lambda: len(misbehaviour.bodies) == MAX_CALLS)
            with pytest.raises(EmbedderUnavailable, match="still under way"):
                embedder.embed_query("tea", timeout_s=PATIENT_S)
            misbehaviour.released.set()
            assert all(call.result() for call in calls)


class TestBrokenConnections:
    @pytest.mark.parametrize("act", [torn, reset, say_nothing, talk_nonsense])
    def test_a_query_fails_in_one_attempt_naming_the_host(
        self, misbehaviour, embedder, act
    ):
        misbehaviour.act = act
        with pytest.raises(
            EmbedderUnavailable, match=r"^127\.0\.0\.1:\d+ (broke|closed)"
        ):
            embedder.embed_query("tea", timeout_s=PATIENT_S)
        assert len(misbehaviour.bodies) == 1

    @pytest.mark.parametrize("act", [torn, reset, say_nothing])
    def test_documents_are_not_blamed_for_it(self, misbehaviour, embedder, act):
        misbehaviour.act = act
        with pytest.raises(EmbedderUnavailable, match=r"broke|closed"):
            embedder.embed_documents(["tea", "coffee"], timeout_s=PATIENT_S)

    def test_nobody_there_is_told_with_the_host(self, embedder_for):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            embedder = embedder_for(None, embed_url=f"http://127.0.0.1:{port}")
            with pytest.raises(EmbedderUnavailable, match=f"127.0.0.1:{port} cannot"):
                embedder.embed_query("tea", timeout_s=PATIENT_S)

    def test_a_name_that_does_not_exist_is_told(self, embedder_for, monkeypatch):
        monkeypatch.setenv("NO_PROXY", "*")
        embedder = embedder_for(None, embed_url="http://no-such-host.invalid")
        with pytest.raises(EmbedderUnavailable, match=r"no-such-host\.invalid"):
            embedder.embed_query("tea", timeout_s=PATIENT_S)


class TestAnswers:
    def test_overload_tells_how_long_to_wait(self, misbehaviour, embedder):
        misbehaviour.act = lambda handler: misbehaviour.send(
            handler, 429, b"", Retry_After="7"
        )
        with pytest.raises(EmbedderUnavailable, match="429") as caught:
            embedder.embed_documents(["tea"], timeout_s=PATIENT_S)
        assert caught.value.retry_after_s == 7.0

    def test_a_reload_is_over_at_the_next_try(self, misbehaviour, embedder):
        misbehaviour.act = lambda handler: misbehaviour.send(handler, 503, b"")
        with pytest.raises(EmbedderUnavailable, match="503"):
            embedder.embed_documents(["tea"], timeout_s=PATIENT_S)
        misbehaviour.act = misbehaviour.embed
        (vector,) = embedder.embed_documents(["tea"], timeout_s=PATIENT_S)
        assert len(vector) == 4

    def test_a_redirect_is_not_followed(self, misbehaviour, embedder):
        misbehaviour.act = lambda handler: misbehaviour.send(
            handler, 307, b"", Location="http://127.0.0.1:9/elsewhere"
        )
        with pytest.raises(EmbedderUnavailable, match="embed_url"):
            embedder.embed_query("tea", timeout_s=PATIENT_S)
        assert len(misbehaviour.bodies) == 1

    def test_an_enormous_answer_is_not_read_to_its_end(self, misbehaviour, embedder):
        def flood(handler):
            handler.send_response(200)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            while True:  # until the client closes the connection
                handler.wfile.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")

        misbehaviour.act = flood
        with pytest.raises(EmbedderUnavailable, match="more than 1 MB"):
            embedder.embed_query("tea", timeout_s=PATIENT_S)

    def test_one_connection_serves_many_requests(self, misbehaviour, embedder):
        for _ in range(5):
            embedder.embed_query("tea", timeout_s=PATIENT_S)
        assert len({handler.client_address for handler in misbehaviour.seen}) == 1


class TestProxies:
    def test_a_proxy_does_not_come_between_us_and_this_host(
        self, embedder, monkeypatch
    ):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        assert embedder.embed_query("tea", timeout_s=PATIENT_S)

    def test_another_host_is_reached_through_it(
        self, misbehaviour, embedder_for, monkeypatch
    ):
        monkeypatch.setenv("http_proxy", misbehaviour.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        embedder = embedder_for(None, embed_url="http://embed.invalid")
        assert embedder.embed_query("tea", timeout_s=PATIENT_S)
        assert misbehaviour.seen[0].path == "http://embed.invalid/v1/embeddings"

    def test_a_host_that_is_excepted_is_reached_directly(
        self, misbehaviour, embedder_for, monkeypatch
    ):
        monkeypatch.setenv("http_proxy", misbehaviour.url)
        monkeypatch.setenv("no_proxy", "embed.invalid")
        embedder = embedder_for(None, embed_url="http://embed.invalid")
        with pytest.raises(EmbedderUnavailable):
            embedder.embed_query("tea", timeout_s=PATIENT_S)
        assert misbehaviour.seen == []

    @pytest.mark.parametrize("proxy", ["gopher://p:1", "http://[::1"])
    def test_one_that_cannot_be_used_is_told_without_its_password(
        self, embedder_for, monkeypatch, proxy
    ):
        monkeypatch.setenv("http_proxy", proxy.replace("://", "://me:s3cret@"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        embedder = embedder_for(None, embed_url="http://embed.invalid")
        with pytest.raises(EmbedderUnavailable, match="proxy") as caught:
            embedder.embed_query("tea", timeout_s=PATIENT_S)
        assert "s3cret" not in str(caught.value)
