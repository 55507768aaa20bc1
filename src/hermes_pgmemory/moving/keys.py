"""The key that makes subjects of contacts, where rows go to another database."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from hermes_pgmemory.contacts import MIN_KEY_BYTES
from hermes_pgmemory.errors import BadRequest

_ABOUT: Final = b"which subject key this is"


def fingerprint(key: str) -> str:
    """Return what tells a key (hex) from others and says nothing about it."""
    secret = bytes.fromhex(key)[:64]
    return hashlib.blake2b(_ABOUT, key=secret, digest_size=8).hexdigest()


def write(path: Path, key: str) -> None:
    """Write the key (hex) into a new file that nobody else may read.

    A file that has it already is left alone.

    Raises:
        BadRequest: There is such a file already, with something else in it.
        OSError: It cannot be written.
    """
    text = f"{key}\n"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as exc:
        if path.is_file() and path.read_bytes()[: len(text) + 1] == text.encode():
            return  # an export that failed after that is run again
        raise BadRequest(f"{path} is there already: name a new file") from exc
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def read(path: Path) -> str:
    """Return the key (hex) of a file that `write` has written.

    Raises:
        BadRequest: It is no such file.
        OSError: It cannot be read.
    """
    try:
        key = path.read_text(encoding="ascii").strip()
        if len(bytes.fromhex(key)) >= MIN_KEY_BYTES:
            return key
    except ValueError:
        pass
    raise BadRequest(f"{path} is no file of `hermes-pgvector export --key-file`")
