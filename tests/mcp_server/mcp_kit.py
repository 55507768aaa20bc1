"""What the tests of the MCP server share: real servers, and the SDK's own client.

The SDK takes half a second to import, and each process that runs tests reads this.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from anyio.from_thread import BlockingPortal
from pydantic import AnyUrl

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.types import CallToolResult

TOKEN = "a-token-of-this-test-alone"
COMMAND = [sys.executable, "-m", "hermes_pgmemory", "mcp"]


class Served:
    """One server over HTTP, on a free port."""

    def __init__(self, home: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--home", str(home), "--http", "--port", "0", *words],
            env={**os.environ, "MEMORY_TOKEN": TOKEN},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line.startswith("answering on http://127.0.0.1:"), line
        self.url = line.split()[-1]

    def end(self) -> int:
        """End it as an operator does; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        return self.process.returncode


class Client:
    """The SDK's client, in calls that wait."""

    def __init__(self, portal: BlockingPortal, session: ClientSession) -> None:
        self.portal = portal
        self.session = session

    def ask(self, method: str, *args: Any) -> Any:
        return self.portal.call(getattr(self.session, method), *args)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what a tool answers; its text and its structure are one."""
        answer = self.result(tool, arguments)
        assert not answer.isError, answer.content
        return told(answer)

    def refused(self, tool: str, **arguments: Any) -> str:
        """Return the type of the error that a tool answers."""
        answer = self.result(tool, arguments)
        assert answer.isError, answer.content
        assert told(answer).keys() == {"error", "type"}
        return told(answer)["type"]

    def unreadable(self, address: str) -> str:
        """Return why a resource cannot be read."""
        from mcp import McpError  # noqa: PLC0415

        with pytest.raises(McpError) as refused:
            self.ask("read_resource", AnyUrl(address))
        return str(refused.value)

    def result(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        return self.ask("call_tool", tool, dict(arguments))

    def found(self, query: str, **arguments: Any) -> list[str]:
        answer = self.call("recall_memory", query=query, **arguments)
        return [hit["content"] for hit in answer["results"]]


def told(answer: CallToolResult) -> dict[str, Any]:
    [content] = answer.content
    said = json.loads(content.text)
    assert said == answer.structuredContent
    return said


@asynccontextmanager
async def by_stdio(home: Path, theme: str) -> AsyncIterator[ClientSession]:
    from mcp import ClientSession, StdioServerParameters  # noqa: PLC0415
    from mcp.client.stdio import stdio_client  # noqa: PLC0415

    command, *words = COMMAND
    parameters = StdioServerParameters(
        command=command,
        args=[*words, "--home", str(home), "--theme", theme],
        env=dict(os.environ),
    )
    async with (
        stdio_client(parameters) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


@asynccontextmanager
async def by_http(
    url: str, theme: str, token: str = TOKEN
) -> AsyncIterator[ClientSession]:
    from mcp import ClientSession  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    headers = {"Authorization": f"Bearer {token}", "X-Hermes-Session-Key": theme}
    async with (
        httpx.AsyncClient(headers=headers, timeout=30, trust_env=False) as http,
        streamable_http_client(url, http_client=http) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session
