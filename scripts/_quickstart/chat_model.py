"""A scripted chat model: the only fake thing in a quickstart.

It speaks OpenAI's chat completions on loopback, streamed or whole, and thinks
nothing: what it answers follows from the conversation alone, so a run can be
repeated. A user says which tools it calls, in one of two ways:

- the *script* maps a user message, word for word, to rounds of tool calls;
- a line `CALL <tool> <json arguments>` in a message is one round.

When the rounds are used up it answers one sentence. Every request is kept in
`ChatModel.requests` and, if asked, appended to a log, one JSON object a line: that is
how a run sees what the host put before its model.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast
from uuid import uuid4

MODEL: Final = "scripted"

Call = tuple[str, str]
"""A tool's name and its arguments as JSON."""

Script = Mapping[str, Sequence[Sequence[Any]]]
"""User message to its rounds, one `[tool, arguments]` each."""

_MEMORY = re.compile(r"\s*<memory-context>(.*?)</memory-context>\s*", re.DOTALL)


def text_of(content: object) -> str:
    """Return the words of a message's content, whatever its shape."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            str(part.get("text", "")) for part in content if isinstance(part, dict)
        )
    return ""


def split_memory(text: str) -> tuple[str, str]:
    """Return the user's own words and the memory block the host added, or ""."""
    blocks = _MEMORY.findall(text)
    return _MEMORY.sub("", text).strip(), "\n".join(block.strip() for block in blocks)


def rounds_of(said: str, script: Script) -> list[Call]:
    """Return the tool calls that *said* asks for, one per round."""
    if said in script:
        return [(str(tool), json.dumps(args)) for tool, args in script[said]]
    lines = (line.split(" ", 2) for line in said.splitlines())
    return [(line[1], line[2]) for line in lines if line[0] == "CALL" and line[2:]]


def answer_to(said: str, memory: str) -> str:
    """Return one sentence of at least 40 characters, the same for the same input."""
    lines = [
        line
        for line in said.splitlines()
        if line.strip() and not line.startswith("CALL ")
    ]
    about = lines[0].strip()[:120] if lines else "your message"
    remembered = _first_memory(memory)
    if remembered:
        return f"About {about!r}, memory says: {remembered}"
    return f"Understood, and dealt with as you asked: {about}"


def _first_memory(memory: str) -> str:
    """Return the first recalled line: a list item, or ""."""
    for line in memory.splitlines():
        if line.lstrip().startswith(("- ", "* ")):
            return line.lstrip()[2:].strip()
    return ""


class ChatModel:
    """The server; a context manager that is listening once entered."""

    def __init__(
        self,
        *,
        port: int = 0,
        script: Script | None = None,
        log: Path | None = None,
        quote_memory: bool = False,
    ) -> None:
        """Bind the port (0 takes a free one); *quote_memory* answers from memory."""
        self.script: Script = script or {}
        self.requests: list[dict[str, Any]] = []
        """Bodies of all completion requests so far, oldest first."""
        self._log = log
        self._quote_memory = quote_memory
        self._lock = threading.Lock()
        self._server = _Server(port, self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="chat-model"
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """What the host calls its model's `base_url`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        """Start answering."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and free the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def record(self, body: dict[str, Any]) -> None:
        """Keep one request for whoever wants to look."""
        with self._lock:
            self.requests.append(body)
            if self._log:
                with self._log.open("a", encoding="utf-8") as log:
                    log.write(json.dumps({"at": time.time(), "body": body}) + "\n")

    def reply(self, body: Mapping[str, Any]) -> tuple[str, Call | None]:
        """Return the answer to a request: a text, or the next tool call."""
        messages = body.get("messages") or []
        asked = max(
            (i for i, message in enumerate(messages) if message.get("role") == "user"),
            default=-1,
        )
        text = text_of(messages[asked].get("content")) if asked >= 0 else ""
        said, memory = split_memory(text)
        used = sum(1 for m in messages[asked + 1 :] if m.get("tool_calls"))
        rounds = rounds_of(said, self.script)
        if used < len(rounds):
            return "", rounds[used]
        return answer_to(said, memory if self._quote_memory else ""), None


class _Server(ThreadingHTTPServer):
    """The listening socket, with the model it answers for."""

    daemon_threads = True

    def __init__(self, port: int, model: ChatModel) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def model(self) -> ChatModel:
        return cast("_Server", self.server).model

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay quiet; the requests themselves are kept."""

    def do_GET(self) -> None:
        entry = {"id": MODEL, "object": "model", "context_length": 200_000}
        self._send({"object": "list", "data": [entry]})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        if not self.path.endswith("/chat/completions"):
            self._send({"error": {"message": f"no {self.path} here"}}, status=404)
            return
        self.model.record(body)
        text, call = self.model.reply(body)
        if body.get("stream"):
            self._stream(text, call)
        else:
            self._send(_whole(text, call))

    def _send(self, reply: dict[str, Any], status: int = 200) -> None:
        raw = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, text: str, call: Call | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for chunk in _chunks(text, call):
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


def _envelope(kind: str) -> dict[str, Any]:
    name = f"chatcmpl-{uuid4().hex[:12]}"
    return {"id": name, "object": kind, "created": int(time.time()), "model": MODEL}


def _message(text: str, call: Call | None) -> tuple[dict[str, Any], str]:
    """Return the assistant's message and why it ends."""
    if call is None:
        return {"role": "assistant", "content": text}, "stop"
    function = {"name": call[0], "arguments": call[1]}
    tool_call = {"id": f"call_{uuid4().hex[:12]}", "type": "function"}
    tool_calls = [{"index": 0, **tool_call, "function": function}]
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": tool_calls,
    }, "tool_calls"


_USAGE: Final = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def _whole(text: str, call: Call | None) -> dict[str, Any]:
    message, reason = _message(text, call)
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {**_envelope("chat.completion"), "choices": [choice], "usage": _USAGE}


def _chunks(text: str, call: Call | None) -> list[dict[str, Any]]:
    envelope = _envelope("chat.completion.chunk")
    message, reason = _message(text, call)
    deltas: list[dict[str, Any]] = [message]
    if call is None:
        words = re.findall(r"\S+\s*", text)
        deltas = [{"role": "assistant"}, *({"content": word} for word in words)]
    ended = [(delta, None) for delta in deltas] + [({}, reason)]
    chunks = [
        {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in ended
    ]
    return [*chunks, {**envelope, "choices": [], "usage": _USAGE}]


def main(argv: Sequence[str]) -> None:
    """Serve until killed: PORT_FILE LOG SCRIPT, each a path.

    The port it took is written to PORT_FILE once it listens.
    """
    port_file, log, script = (Path(arg) for arg in argv)
    words: Script = json.loads(script.read_text(encoding="utf-8"))
    with ChatModel(script=words, log=log, quote_memory=True) as model:
        partial = port_file.with_suffix(".new")
        partial.write_text(str(model.port), encoding="utf-8")
        partial.rename(port_file)
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
