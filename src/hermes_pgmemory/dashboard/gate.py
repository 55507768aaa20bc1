"""Who may look: one browser, by a name of this host, after showing a token once."""

from __future__ import annotations

import secrets
import threading
from http import HTTPStatus
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTRANCE: Final = "/enter"
"""Where the token is exchanged for a cookie."""
NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""What this host may be called: any other name was made to point here by a stranger."""

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
CLOSED: Final = (
    "Open the address that `hermes-pgvector dashboard` printed. It works once; to look "
    "from another browser, start the command again.\n"
)


class Keys:
    """A token that works once, and what the browser gets for it. Thread-safe."""

    def __init__(self) -> None:
        """Make a new token."""
        self.token: Final = secrets.token_urlsafe(32)
        # Browsers share cookies between ports: another dashboard has one as well.
        self.cookie: Final = f"pgmemory_{secrets.token_hex(4)}"
        self._unused = True
        self._session = secrets.token_urlsafe(32)
        self._mutex = threading.Lock()

    def exchange(self, given: str) -> str | None:
        """Return the session's secret for the token, the first time; else None."""
        right = _same(given, self.token)
        with self._mutex:
            if not (right and self._unused):
                return None
            self._unused = False
        return self._session

    def admits(self, given: str) -> bool:
        """Tell whether *given* is the secret of a session that has begun."""
        return _same(given, self._session) and not self._unused


def _same(given: str, known: str) -> bool:
    return secrets.compare_digest(given.encode(errors="replace"), known.encode())


class Gate:
    """Stands before the whole site: nothing is served past it."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        """Guard *app*."""
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the request through; either way with `HEADERS`."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        own = self._answer(Request(scope))
        await (own or self._app)(scope, receive, send_guarded)

    def _answer(self, request: Request) -> Response | None:
        """Return the gate's own answer; None lets the request through."""
        if _host(request) not in NAMES:
            wrong = "This page answers to 127.0.0.1 and localhost only.\n"
            return PlainTextResponse(wrong, HTTPStatus.MISDIRECTED_REQUEST)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse(
                "Nothing can be changed here.\n", HTTPStatus.METHOD_NOT_ALLOWED
            )
        if request.url.path == ENTRANCE:
            return self._enter(request)
        if self._keys.admits(request.cookies.get(self._keys.cookie, "")):
            return None
        return PlainTextResponse(CLOSED, HTTPStatus.FORBIDDEN)

    def _enter(self, request: Request) -> Response:
        given = request.query_params.get("token", "")
        # Whoever asks for the head alone only looks whether the link is alive.
        session = self._keys.exchange(given) if request.method == "GET" else None
        if session is None:
            return PlainTextResponse(CLOSED, HTTPStatus.FORBIDDEN)
        inside = RedirectResponse("/", HTTPStatus.SEE_OTHER)
        inside.set_cookie(self._keys.cookie, session, httponly=True, samesite="strict")
        return inside


def _host(request: Request) -> str:
    """Return the name that the browser asked for, without a port."""
    host = request.headers.get("host", "")
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()
