"""The bearer token: where it is kept, and whether a request has it."""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path
from typing import Final

from hermes_pgmemory.errors import ConfigError

MIN_CHARS: Final = 16
"""A shorter token could be tried out."""
_MAX_BYTES: Final = 4096


class Token:
    """A secret that requests must bring; never shown."""

    __slots__ = ("_secret",)

    def __init__(self, text: str, *, told_by: str) -> None:
        """Take *text*, which the option *told_by* led to.

        Raises:
            ConfigError: It is too short, or holds what a header cannot.
        """
        text = text.strip()
        if len(text) < MIN_CHARS or not text.isascii() or not text.isprintable():
            why = f"a token is {MIN_CHARS} or more printable ASCII characters"
            raise ConfigError({told_by: why})
        self._secret = text.encode()

    @classmethod
    def of_environment(cls, name: str) -> Token:
        """Take the token from the environment variable *name*.

        Raises:
            ConfigError: It is not set, or no token.
        """
        text = os.environ.get(name, "")
        if not text:
            raise ConfigError({"--token-env": f"{name} is not set"})
        return cls(text, told_by="--token-env")

    @classmethod
    def of_file(cls, path: Path) -> Token:
        """Take the token from a file that nobody else may read.

        Raises:
            ConfigError: It cannot be read, others may read it, or it holds no token.
        """
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                if mode & (stat.S_IRWXG | stat.S_IRWXO):
                    why = f"{path} may be read by others: chmod 600 it"
                    raise ConfigError({"--token-file": why})
                raw = file.read(_MAX_BYTES)
        except OSError as exc:
            why = f"{path} cannot be read: {exc.strerror}"
            raise ConfigError({"--token-file": why}) from None
        return cls(raw.decode("ascii", "replace"), told_by="--token-file")

    def is_brought_by(self, authorization: str | None) -> bool:
        """Tell whether a request's header `Authorization` brings this token.

        In a time that says nothing about how much of it is right.
        """
        scheme, _, brought = (authorization or "").partition(" ")
        given = brought.strip().encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, self._secret) and scheme.lower() == "bearer"

    def __repr__(self) -> str:
        """Hide the secret."""
        return "Token(hidden)"
