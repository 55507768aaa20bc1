"""Over streamable HTTP: one server for many clients, each with its theme and token.

Stateless: a request is answered by what it brings itself, so that no client can get
into another's session, and a restart goes unnoticed.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.mcp_server.protocol import MemoryServer
from hermes_pgmemory.mcp_server.token import Token

PATH: Final = "/mcp"
MAX_BODY_BYTES: Final = 4 << 20
GRACE_S: Final = 3
"""Seconds that requests under way may take when the server is told to end."""
_ANYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - refused as a name
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class Serving:
    """A server that answers on a port until it is closed."""

    def __init__(
        self,
        server: MemoryServer,
        *,
        host: str,
        port: int,
        token: Token | None,
        names: Sequence[str] = (),
        when_ended: Callable[[], None] = lambda: None,
    ) -> None:
        """Answer from now on, on a thread of our own; port 0 takes a free one.

        Args:
            server: What answers.
            host: Address to listen on.
            port: TCP port.
            token: What every request must bring; None only on loopback.
            names: Further names by which clients may call this host.
            when_ended: Called when it answers no more, for whatever reason.

        Raises:
            ConfigError: The port cannot be had, or *host* is no loopback address and
                there is no token.
        """
        if token is None and not is_loopback(host):
            why = f"{host} is not loopback: give --token-env or --token-file"
            raise ConfigError({"--host": why})
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        app = _app(server, token, _security([*names, host], self.port))
        self._uvicorn = uvicorn.Server(
            uvicorn.Config(
                app,
                lifespan="on",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._when_ended = when_ended
        self._thread = threading.Thread(target=self._run, name="pgmemory-mcp")
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and give the port back."""
        self._uvicorn.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            self._uvicorn.run(sockets=[self._socket])
        finally:
            self._when_ended()


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach *host*."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "no such port"
        raise ConfigError({"--port": f"{port} of {host}: {why}"}) from exc


def _security(names: Sequence[str], port: int) -> TransportSecuritySettings:
    """Refuse requests that a browser was led to send here under another name."""
    hosts = [f"{name}:{port}" for name in _LOOPBACK]
    for name in names:
        if name in _ANYWHERE:
            continue
        spelled = f"[{name}]" if ":" in name else name
        hosts += [spelled, f"{spelled}:*"]
    origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=origins,
    )


def _app(
    server: MemoryServer, token: Token | None, security: TransportSecuritySettings
) -> Starlette:
    manager = StreamableHTTPSessionManager(
        server.sdk, json_response=True, stateless=True, security_settings=security
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            yield

    return Starlette(
        # Without sessions there is nothing to listen to (GET) or to end (DELETE).
        routes=[Route(PATH, endpoint=_Handler(manager), methods=["POST"])],
        middleware=[Middleware(_Guard, token=token)],
        lifespan=lifespan,
    )


class _Handler:
    """Hands requests to the SDK; a class, because Starlette wraps functions."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)


class _Guard:
    """Lets nobody in without the token, and nothing in that is too big."""

    def __init__(self, app: ASGIApp, *, token: Token | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        token = self._token
        if token is not None and not token.is_brought_by(headers.get("authorization")):
            challenge = {"WWW-Authenticate": "Bearer"}
            return PlainTextResponse("a bearer token, please\n", 401, challenge)
        if scope["method"] != "POST":
            return None
        length = headers.get("content-length", "")
        # Where a body comes in chunks, its length would be no promise.
        if not length.isdecimal() or "transfer-encoding" in headers:
            return PlainTextResponse("say how long it is\n", 411)
        if int(length.lstrip("0")[:12] or 0) > MAX_BODY_BYTES:
            return PlainTextResponse("too long\n", 413)
        return None
