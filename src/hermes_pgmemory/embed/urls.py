"""The endpoint's address, in any spelling an operator may use."""

from __future__ import annotations

import base64
import ipaddress
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import httpx

from hermes_pgmemory.config import SECTION
from hermes_pgmemory.errors import ConfigError


class Dialect(StrEnum):
    """The two protocols we speak."""

    OPENAI = "openai"
    OLLAMA = "ollama"


@dataclass(frozen=True, slots=True)
class Route:
    """One place to ask, and how."""

    dialect: Dialect
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where an endpoint lives, without its secrets."""

    host: str
    """Host and port as they may be shown."""
    loopback: bool
    routes: tuple[Route, ...]
    """What to try, likeliest first; all of one host."""
    basic_auth: str | None = None
    """The Authorization header for a user and password in the URL. Secret."""

    def __repr__(self) -> str:
        """Leave the password out."""
        return f"Address({self.host!r})"


# What may follow the base of a URL; the rest of the path belongs to the operator.
_OLLAMA_TAIL: Final = re.compile(r"/api(/embed(dings)?)?$")
_OPENAI_FULL: Final = re.compile(r"/embeddings$")
_OPENAI_BASE: Final = re.compile(r"(/v\d+[a-z]*)?/openai$|/v\d+[a-z]*$")


def parse_url(url: str, protocol: Literal["auto", "openai", "ollama"]) -> Address:
    """Read *url*, with or without `/v1`, slash, or full path.

    Raises:
        ConfigError: It is no usable http or https URL. The message does not repeat
            it, because it may hold a password.
    """
    parts = _split(url.strip())
    path = parts.path.rstrip("/")
    openai, ollama = _paths(path)
    routes = (
        Route(Dialect.OPENAI, _with_path(parts, openai)),
        Route(Dialect.OLLAMA, _with_path(parts, ollama)),
    )
    if protocol == "openai":
        routes = routes[:1]
    elif protocol == "ollama" or _OLLAMA_TAIL.search(path):
        routes = routes[1:]
    host = parts.hostname or ""
    return Address(
        host=_shown(parts),
        loopback=_is_loopback(host),
        routes=routes,
        basic_auth=_basic_auth(parts),
    )


def _paths(path: str) -> tuple[str, str]:
    """Return the OpenAI path and the Ollama path that belong to *path*."""
    if tail := _OLLAMA_TAIL.search(path):
        base = path[: tail.start()]
        return f"{base}/v1/embeddings", f"{base}/api/embed"
    full = path if _OPENAI_FULL.search(path) else ""
    base = _OPENAI_FULL.sub("", path)
    if tail := _OPENAI_BASE.search(base):
        root = base[: tail.start()]
        return full or f"{base}/embeddings", f"{root}/api/embed"
    return full or f"{base}/v1/embeddings", f"{base}/api/embed"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        raise _bad("not a valid URL") from None
    if parts.scheme not in {"http", "https"}:
        raise _bad("must start with http:// or https://")
    if not parts.hostname or re.search(r"\s", url):
        raise _bad("has no usable host name")
    if port == 0:
        raise _bad("port 0 cannot be asked")
    return parts


def _bad(why: str) -> ConfigError:
    example = "http://localhost:11434"
    return ConfigError({f"{SECTION}.embed_url": f"{why}; write it like {example}"})


def _with_path(parts: SplitResult, path: str) -> str:
    netloc = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, netloc, path, parts.query, ""))


def _shown(parts: SplitResult) -> str:
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return host if parts.port is None else f"{host}:{parts.port}"


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # 0.0.0.0 is what servers print as their address; asked, it means this host.
    return address.is_loopback or address.is_unspecified


def _basic_auth(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()
