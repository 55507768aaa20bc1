"""The host's gateway with its API server, and how a client talks to it."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from _quickstart.host import BIN, TURN_S, Home, HostError, end

START_S: Final = 90.0
"""Seconds a gateway may take to answer; it usually takes five."""

STOP_S: Final = 40.0
"""Seconds a gateway may take to end; its own limit for saving is thirty."""


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a minion said, and under which session the host filed it."""

    text: str
    session_id: str


class Gateway:
    """`hermes gateway run` with its API server; a context manager."""

    def __init__(self, home: Home, log: Path) -> None:
        """Prepare; *log* takes what the process prints."""
        self.home = home
        self.log = log
        self.port = free_port()
        self.key = secrets.token_hex(24)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The running process's id.

        Raises:
            HostError: It is not running.
        """
        if self._process is None:
            raise HostError("the gateway is not running")
        return self._process.pid

    def __enter__(self) -> Self:
        """Start, and return when it answers."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Start the process and wait until it answers.

        Raises:
            HostError: It ended at once, or did not answer in `START_S`.
        """
        env = {
            **self.home.env,
            "API_SERVER_ENABLED": "true",
            "API_SERVER_HOST": "127.0.0.1",
            "API_SERVER_PORT": str(self.port),
            "API_SERVER_KEY": self.key,
        }
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [str(BIN / "hermes"), "gateway", "run"],
                env=env,
                cwd=self.home.user_home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                # A Ctrl-C in the caller's terminal must not reach it: its owner
                # stops it, in order.
                start_new_session=True,
            )
        with ExitStack() as failed:
            failed.callback(self.stop)
            self._await_health()
            failed.pop_all()

    def _await_health(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise HostError(f"the gateway ended at once; see {self.log}")
            try:
                status, _ = self._request("GET", "/health", None, {}, timeout_s=2)
            except (OSError, HTTPException):
                time.sleep(0.1)
                continue
            if status == 200:
                return
        raise HostError(f"the gateway did not answer in {START_S:.0f} s")

    def stop(self) -> None:
        """Ask it to end (SIGTERM) and wait; kill it only if it will not."""
        process, self._process = self._process, None
        if process is not None:
            end(process, patience_s=STOP_S)

    def kill(self) -> None:
        """End it without a chance to save anything (SIGKILL)."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def ask(
        self,
        text: str,
        *,
        key: str | None = None,
        history: Sequence[tuple[str, str]] = (),
        system: str | None = None,
        session_id: str | None = None,
    ) -> Answer:
        """Send one user message, as the API's clients do, and return the answer.

        Args:
            text: The message.
            key: Who is spoken to (`X-Hermes-Session-Key`); None names nobody.
            history: Earlier `(user, assistant)` turns of the conversation.
            system: A persona, sent as the system message.
            session_id: A session to continue (`X-Hermes-Session-Id`).

        Raises:
            HostError: The answer was not a 200, or none came.
        """
        messages = [{"role": "system", "content": system}] if system else []
        for user, assistant in history:
            messages.append({"role": "user", "content": user})
            messages.append({"role": "assistant", "content": assistant})
        messages.append({"role": "user", "content": text})
        headers = {"X-Hermes-Session-Key": key, "X-Hermes-Session-Id": session_id}
        given = {name: value for name, value in headers.items() if value}
        try:
            status, reply = self.post(messages, given)
        except (OSError, HTTPException) as exc:
            raise HostError(f"the gateway gave no answer: {exc!r}") from exc
        if status != 200:
            raise HostError(f"the gateway answered {status}: {str(reply)[:200]}")
        return Answer(
            text=reply["choices"][0]["message"]["content"],
            session_id=reply["session_id"],
        )

    def post(
        self,
        messages: Sequence[Mapping[str, str]],
        headers: Mapping[str, str],
        *,
        stream: bool = False,
    ) -> tuple[int, Any]:
        """Send one chat completion; return the status and the decoded body.

        A streamed body is returned as text.
        """
        body = {
            "model": "hermes-agent",
            "messages": list(messages),
            "stream": stream,
        }
        return self._request(
            "POST", "/v1/chat/completions", body, headers, timeout_s=TURN_S
        )

    def _request(
        self,
        method: str,
        path: str,
        body: object,
        headers: Mapping[str, str],
        *,
        timeout_s: float,
    ) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(
                method,
                path,
                None if body is None else json.dumps(body),
                {
                    "Authorization": f"Bearer {self.key}",
                    "Content-Type": "application/json",
                    **headers,
                },
            )
            response = connection.getresponse()
            raw = response.read()
            reply = json.loads(raw) if raw.startswith((b"{", b"[")) else raw.decode()
            if isinstance(reply, dict):
                name = response.headers.get("X-Hermes-Session-Id", "")
                reply.setdefault("session_id", name)
            return response.status, reply
        finally:
            connection.close()
