"""One HTTP exchange, bounded in time and size, with its failures classified.

It speaks through an httpx transport, one floor below `httpx.Client`: redirects,
cookies and the client's log line per request (which would print the whole URL) are
all things we do not want.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from datetime import UTC, datetime
from typing import Final, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

# httpx imports this when its first transport is made. A process forked in that moment
# would inherit the import's lock, held by a thread it does not have.
import httpcore  # noqa: F401 # pyright: ignore[reportUnusedImport]
import httpx

from hermes_pgmemory.embed.wire import Answer, parse_retry_after
from hermes_pgmemory.errors import EmbedderUnavailable
from hermes_pgmemory.metrics import EMBED_REQUESTS, EMBED_SECONDS

T = TypeVar("T")

KEEP_ALIVE_S: Final = 30.0
"""How long an idle connection is kept; a turn of a conversation takes seconds."""

MAX_CALLS: Final = 64
"""Calls under way, or given up on but not yet ended, per embedder."""

_LIMITS: Final = httpx.Limits(
    max_connections=MAX_CALLS,
    max_keepalive_connections=4,
    keepalive_expiry=KEEP_ALIVE_S,
)
_ERROR_BYTES: Final = 65_536
"""How much of an error's body is read; the rest is dropped."""


class TimedOut(EmbedderUnavailable):
    """No complete answer in time: the endpoint hangs, or the batch is too big."""


class Disconnected(EmbedderUnavailable):
    """No connection, or it broke."""


class HttpClient:
    """Posts to one host over kept-alive connections; safe to share between threads."""

    def __init__(
        self, host: str, make_transport: Callable[[], httpx.BaseTransport]
    ) -> None:
        """Keep what is needed; the transport is made when first used.

        Args:
            host: How to call the endpoint in messages.
            make_transport: Called at most once, under a lock.
        """
        self._host = host
        self._make_transport = make_transport
        self._lock = threading.Lock()
        self._transport: httpx.BaseTransport | None = None
        self._closed = False

    def post(
        self,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        timeout_s: float,
        max_bytes: int,
    ) -> Answer:
        """Post *body* and read the whole answer.

        Args:
            url: Absolute, without user and password.
            body: JSON.
            headers: Sent besides the usual ones; may hold secrets.
            timeout_s: Seconds for each step, and for the body as a whole.
            max_bytes: Largest answer accepted.

        Raises:
            TimedOut: No complete answer in time.
            Disconnected: Everything else that goes wrong on the way.
            EmbedderUnavailable: The answer is too large, or we are closed.
        """
        deadline = time.monotonic() + timeout_s
        request = httpx.Request(
            "POST",
            url,
            content=body,
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json",
                # Small answers; and a compressed bomb has no business here.
                "Accept-Encoding": "identity",
                "User-Agent": "hermes-pgmemory",
                **headers,
            },
            extensions={"timeout": httpx.Timeout(timeout_s).as_dict()},
        )
        try:
            with EMBED_SECONDS.time():
                answer = self._exchange(request, deadline, max_bytes)
        except httpx.TimeoutException as exc:
            EMBED_REQUESTS.labels(outcome="unavailable").inc()
            raise self._timed_out(timeout_s) from exc
        except httpx.RequestError as exc:
            EMBED_REQUESTS.labels(outcome="unavailable").inc()
            raise Disconnected(f"{self._host} {_told(exc)}") from exc
        EMBED_REQUESTS.labels(outcome=_outcome(answer.status)).inc()
        return answer

    def _exchange(
        self, request: httpx.Request, deadline: float, max_bytes: int
    ) -> Answer:
        response = self._open().handle_request(request)
        try:
            body = self._read(response, deadline, max_bytes)
        finally:
            response.close()
        header: str | None = response.headers.get("retry-after")
        pause = parse_retry_after(header, now=datetime.now(UTC))
        return Answer(response.status_code, body, pause)

    def _read(self, response: httpx.Response, deadline: float, max_bytes: int) -> bytes:
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if response.is_error and len(body) > _ERROR_BYTES:
                break
            if len(body) > max_bytes:
                EMBED_REQUESTS.labels(outcome="unavailable").inc()
                size = f"{max_bytes / 1e6:.0f} MB"
                raise EmbedderUnavailable(f"{self._host} sends more than {size}")
            # The transport bounds each read; a slow drip passes all of them.
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("slow drip")
        return bytes(body)

    def check_open(self) -> None:
        """Raise EmbedderUnavailable if `close` was called."""
        if self._closed:
            raise EmbedderUnavailable(f"the connection to {self._host} is closed")

    def _open(self) -> httpx.BaseTransport:
        with self._lock:
            self.check_open()
            if self._transport is None:
                self._transport = self._make_transport()
            return self._transport

    def _timed_out(self, timeout_s: float) -> TimedOut:
        return TimedOut(f"{self._host} did not answer within {timeout_s:.3g} s")

    def close(self) -> None:
        """Close all connections; a call under way fails."""
        with self._lock:
            self._closed = True
            transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()


def _outcome(status: int) -> str:
    if status < 300:
        return "ok"
    return "rejected" if status in {400, 413, 422} else "unavailable"


def _told(exc: httpx.RequestError) -> str:
    """Say what went wrong without quoting what may hold our own headers."""
    if isinstance(exc, httpx.ConnectError | httpx.ProxyError):
        return f"cannot be reached: {' '.join(str(exc).split())[:120]}"
    if isinstance(exc, httpx.RemoteProtocolError):
        return "closed the connection before a complete answer"
    return f"broke the connection ({type(exc).__name__})"


def network_transport(url: str, *, loopback: bool) -> httpx.BaseTransport:
    """Make the transport for *url*: through the environment's proxy if it has one.

    A loopback host is always reached directly: a proxy cannot reach ours.

    Raises:
        EmbedderUnavailable: The proxy variable holds nothing usable.
    """
    proxy = None if loopback else _proxy_for(url)
    if proxy is None:
        plain = urlsplit(url).scheme == "http"
        return httpx.HTTPTransport(
            limits=_LIMITS, verify=_trust_nobody() if plain else True
        )
    try:
        return httpx.HTTPTransport(limits=_LIMITS, proxy=httpx.Proxy(proxy))
    except (ImportError, ValueError, httpx.InvalidURL):
        raise EmbedderUnavailable(
            "the proxy that the environment names cannot be used; change the proxy "
            "variable, or list the endpoint's host in NO_PROXY"
        ) from None


def _proxy_for(url: str) -> str | None:
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy and "://" not in proxy:
        return f"http://{proxy}"
    return proxy or None


def socket_transport(path: str) -> httpx.BaseTransport:
    """Make the transport for a server on a Unix socket."""
    return httpx.HTTPTransport(limits=_LIMITS, uds=path, verify=_trust_nobody())


def _trust_nobody() -> ssl.SSLContext:
    """Return what spares loading the certificates that only TLS would need."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Bounded:
    """Runs calls that may hang, and gives up on them when their time is over.

    A socket's timeout bounds one read, not an exchange, and nothing bounds a name
    look-up. So each call runs on a thread of its own that the caller can leave
    behind; the thread ends when the call does, at the latest with the process.
    """

    def __init__(self, host: str) -> None:
        """Call the endpoint *host* in messages."""
        self._host = host
        self._slots = threading.BoundedSemaphore(MAX_CALLS)

    def run(self, work: Callable[[], T], *, timeout_s: float) -> T:
        """Return what *work* returns, or raise what it raises.

        Raises:
            TimedOut: It did neither within *timeout_s* seconds.
            EmbedderUnavailable: Too many calls, those given up included, are under way.
        """
        if not self._slots.acquire(blocking=False):
            raise EmbedderUnavailable(
                f"{MAX_CALLS} calls to {self._host} are still under way"
            )
        outcome: Future[T] = Future()
        thread = threading.Thread(
            target=self._work, args=(work, outcome), daemon=True, name="pgmemory-embed"
        )
        try:
            thread.start()
        except RuntimeError as exc:
            self._slots.release()
            raise EmbedderUnavailable("no thread can be started") from exc
        wait([outcome], timeout=timeout_s)
        if not outcome.done():
            raise TimedOut(f"{self._host} did not answer within {timeout_s:.3g} s")
        return outcome.result()

    def _work(self, work: Callable[[], T], outcome: Future[T]) -> None:
        try:
            try:
                result = work()
            finally:
                self._slots.release()
        # Not swallowed but handed to whoever waits, and would wait for ever.
        except BaseException as exc:  # noqa: BLE001
            outcome.set_exception(exc)
        else:
            outcome.set_result(result)
