"""The key that turns a contact into a subject, cached on local disk.

The key is made by the migration and lives in the database, so that a contact is the
same subject on every host. Hooks cannot wait for the database, so each home keeps a
copy, 0600.
"""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path
from typing import Final

from hermes_pgmemory.paths import HomePaths

KEY_FILE: Final = "subject.key"

_mutex = threading.Lock()
_keys: dict[Path, bytes] = {}
STAND_IN: Final = secrets.token_bytes(32)
"""Used where a home has never met its database: such rows are seen by nobody else,
and by nobody at all once this process ends."""


def known_key(paths: HomePaths) -> bytes | None:
    """Return this home's copy of the key; None until it has met its database."""
    path = paths.state / KEY_FILE
    with _mutex:
        if path not in _keys:
            try:
                _keys[path] = path.read_bytes()
            except OSError:
                return None
        return _keys[path]


def remember_key(paths: HomePaths, key: str) -> None:
    """Keep the database's *key* (hex) for the hooks of this home."""
    path = paths.state / KEY_FILE
    wanted = bytes.fromhex(key)
    if known_key(paths) == wanted:
        return
    paths.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{KEY_FILE}.{secrets.token_hex(4)}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(wanted)
    fresh.replace(path)
    with _mutex:
        _keys[path] = wanted
