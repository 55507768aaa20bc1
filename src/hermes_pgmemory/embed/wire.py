"""What goes over the wire and what comes back, as values. No I/O here.

An endpoint may answer anything. Whatever it says is told in our own words: its
own might repeat the text we sent.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Final, cast

from hermes_pgmemory.config import SECTION
from hermes_pgmemory.embed.urls import Dialect
from hermes_pgmemory.errors import EmbedderUnavailable

MAX_RETRY_AFTER_S: Final = 600.0
"""Longest pause we let an endpoint ask for."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete HTTP answer."""

    status: int
    body: bytes
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class BadVector:
    """What came in a vector's place."""

    reason: str


Item = list[float] | BadVector | None
"""One text's outcome: a unit vector, something else, or nothing at all."""


class Refusal(Exception):
    """The endpoint did not embed this request, and the texts may be why."""

    def __init__(self, reason: str, *, status: int, too_long: bool = False) -> None:
        """Keep what the caller needs to decide; *reason* is one line, no content."""
        self.reason = reason
        self.too_long = too_long
        # 500s and garbled answers may be the endpoint's own trouble.
        self.blames_input = too_long or status in _REFUSED
        super().__init__(reason)

    def unavailable(self) -> EmbedderUnavailable:
        """Restate it as the endpoint's fault."""
        hint = ""
        if self.blames_input:
            hint = f"; check {SECTION}.embed_model and {SECTION}.embed_url"
        return EmbedderUnavailable(self.reason + hint)


_REFUSED: Final = frozenset({400, 413, 422})
_SUSPECT: Final = frozenset({200, 500})
_TOO_LONG: Final = re.compile(
    r"context (length|size|window)|too (long|large|many tokens)|token limit"
    r"|max\w*[ _](context|sequence|input|prompt|token|length)"
    r"|(exceed|more|greater|longer|larger|fewer|less)\w*\b.{0,60}\b(token|length)"
)
_HEAD_BYTES: Final = 4096
"""How much of an error's body is read for known phrases."""


def clean(text: str) -> str:
    """Make *text* valid UTF-8: surrogate pairs join, lone ones become U+FFFD.

    NUL becomes a space: engines in C end a text there.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", " ")


class Encoding(StrEnum):
    """How an answer spells its vectors; the words of the OpenAI protocol."""

    FLOAT = "float"
    BASE64 = "base64"
    """A fifth of the bytes, and a fraction of the time to read."""


def request_body(
    dialect: Dialect,
    model: str,
    texts: Sequence[str],
    encoding: Encoding = Encoding.FLOAT,
) -> bytes:
    """Phrase a request. `dimensions` is never sent: some endpoints refuse it."""
    body: dict[str, object] = {"model": model, "input": list(texts)}
    if dialect is Dialect.OPENAI:
        body["encoding_format"] = encoding
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def read_answer(answer: Answer, count: int, *, host: str, model: str) -> list[Item]:
    """Take the vectors for *count* texts out of an answer.

    Raises:
        Refusal: The texts may be at fault.
        EmbedderUnavailable: They are not.
    """
    if answer.status != HTTPStatus.OK:
        raise failure(answer, host=host, model=model)
    reply = _mapping(_parse(answer.body, host))
    if reply.get("error"):
        raise _error_in_200(answer, reply["error"], host=host, model=model)
    if isinstance(reply.get("embeddings"), list):
        return _by_position(cast("list[object]", reply["embeddings"]), count)
    if isinstance(reply.get("data"), list):
        return _by_index(cast("list[object]", reply["data"]), count)
    raise Refusal(f"{host} answers without a list of embeddings", status=200)


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _parse(body: bytes, host: str) -> object:
    try:
        return cast("object", json.loads(body))
    except (ValueError, RecursionError):
        head = body.lstrip()[:1]
        what = {b"": "an empty body", b"<": "a web page"}.get(head, "broken JSON")
    raise Refusal(f"{host} answers 200 with {what}", status=200)


def _error_in_200(
    answer: Answer, error: object, *, host: str, model: str
) -> EmbedderUnavailable | Refusal:
    """Some gateways wrap the real status into a successful answer."""
    details = _mapping(error)
    text = str(details.get("code") or details.get("status"))
    status = int(text) if text.isdecimal() and len(text) == 3 else 500
    return failure(
        Answer(status, answer.body, answer.retry_after_s), host=host, model=model
    )


def failure(answer: Answer, *, host: str, model: str) -> EmbedderUnavailable | Refusal:
    """Classify an answer that is not a success."""
    status = answer.status
    words = answer.body[:_HEAD_BYTES].decode(errors="replace").lower()
    reason = f"{host} answers {status}{_phrase(status)}"
    if status in _REFUSED | _SUSPECT:
        too_long = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        too_long = too_long or _TOO_LONG.search(words) is not None
        return Refusal(reason, status=status, too_long=too_long)
    return EmbedderUnavailable(
        reason + _advice(status, words, model), retry_after_s=answer.retry_after_s
    )


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _advice(status: int, words: str, model: str) -> str:
    """Name the setting to change, where one is at fault."""
    if status in {401, 403}:
        return f"; set {SECTION}.embed_api_key_env to the variable that holds its key"
    if status == HTTPStatus.NOT_FOUND and "model" in words:
        return f"; it has no model {model!r}, see {SECTION}.embed_model"
    if status in {404, 405, 410} or 300 <= status < 400:
        return f"; check {SECTION}.embed_url"
    return ""


def _by_position(rows: list[object], count: int) -> list[Item]:
    if len(rows) != count:
        # Nobody can tell which is whose.
        return [None] * count
    return [unit(row) for row in rows]


def _by_index(rows: list[object], count: int) -> list[Item]:
    entries = [_mapping(row) for row in rows]
    if not any("index" in entry for entry in entries):
        return _by_position([entry.get("embedding") for entry in entries], count)
    if len(entries) == count == 1:
        return [unit(entries[0].get("embedding"))]
    indexes = [entry.get("index") for entry in entries]
    found = {
        index: entry.get("embedding")
        for index, entry in zip(indexes, entries, strict=True)
        if type(index) is int and 0 <= index < count
    }
    # One that is repeated or none of ours, or a count that may begin at 1, makes all of
    # them doubtful: a vector with the wrong text is worse than another request.
    if len(found) != len(entries) or 0 not in found:
        return [None] * count
    return [unit(found[i]) if i in found else None for i in range(count)]


def unit(value: object) -> list[float] | BadVector:
    """Return *value* scaled to length 1, if it is a vector of finite numbers."""
    floats = _of_base64(value) if isinstance(value, str) else _of_list(value)
    if isinstance(floats, BadVector):
        return floats
    length = math.hypot(*floats)
    if not math.isfinite(length):
        return BadVector("a vector with NaN or infinity in it")
    if length == 0.0:
        return BadVector("a vector of zeros")
    return [number / length for number in floats]


def _of_list(value: object) -> list[float] | BadVector:
    if not isinstance(value, list) or not value:
        return BadVector("something that is no vector")
    numbers = cast("list[object]", value)
    # By exact type: JSON's `true` is an int to Python.
    if not set(map(type, numbers)) <= {float, int}:
        return BadVector("a vector that holds something else than numbers")
    try:
        return list(map(float, cast("list[float]", numbers)))
    except OverflowError:
        return BadVector("a vector with a number beyond all floats")


def _of_base64(text: str) -> list[float] | BadVector:
    """Decode little-endian float32s, the other encoding of the OpenAI protocol."""
    try:
        raw = base64.b64decode(text, validate=True)
        floats = list(struct.unpack(f"<{len(raw) // 4}f", raw))
    except (binascii.Error, ValueError, struct.error):
        floats = []
    return floats or BadVector("something that is no vector")


def parse_retry_after(value: str | None, *, now: datetime) -> float | None:
    """Read a Retry-After header: seconds or an HTTP date, clamped to sane pauses.

    Args:
        value: The header, if there was one.
        now: Aware; what a date is compared with.

    Returns:
        Seconds in [0, `MAX_RETRY_AFTER_S`], or None where it says nothing usable.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value, now)
    if math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


def _seconds_until(date: str, now: datetime) -> float:
    try:
        at = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return (at - now).total_seconds()
