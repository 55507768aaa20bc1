"""The key that turns a contact into a subject, cached on local disk.

The key is made by the migration and lives in the database, so that a contact is the
same subject on every host. Hooks cannot wait for the database, so each home keeps a
copy, 0600.

A home that has never met its database has none. What identifies a contact is sealed
then, under a stand-in of the home's own, and becomes what it should be once the key is
known: in the agents at their next hook, in journals on their way to the database.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hermes_pgmemory import contacts
from hermes_pgmemory.contacts import SEALED, Contact
from hermes_pgmemory.errors import (
    DatabaseUnavailable,
    JournalUnavailable,
    UnstorableWrite,
)
from hermes_pgmemory.models import Subject
from hermes_pgmemory.paths import HomePaths

KEY_FILE: Final = "subject.key"
STAND_IN_FILE: Final = "stand-in.key"

log = logging.getLogger("hermes_pgmemory")

_mutex = threading.Lock()
_keys: dict[Path, bytes] = {}


@dataclass(frozen=True, slots=True)
class Veil:
    """Hides what identifies a contact: for good, or until the key is known."""

    key: bytes = field(repr=False)
    is_final: bool

    def subject(self, contact: Contact) -> Subject:
        """Return what rows carry in the place of *contact*."""
        return contact.subject(self.key) if self.is_final else contact.sealed(self.key)

    def session_id(self, name: str) -> str:
        """Return what rows carry in the place of a chat's session id."""
        hide = contacts.veiled if self.is_final else contacts.sealed
        return hide(name, self.key)


def veil_of(paths: HomePaths) -> Veil:
    """Return what hides contacts in this home now.

    Raises:
        JournalUnavailable: The home's state folder cannot be written.
    """
    if (key := known_key(paths)) is not None:
        return Veil(key, is_final=True)
    return Veil(_stand_in(paths), is_final=False)


def unsealed(paths: HomePaths, text: str, *, key: bytes | None = None) -> str:
    """Return *text*, such as a record of the journal, with nothing in it sealed.

    Hashed under *key*; None for the one that this home knows.

    Raises:
        DatabaseUnavailable: The key is not known yet.
        UnstorableWrite: A subject was sealed under a stand-in that is gone.
    """
    if SEALED not in text:
        return text
    key = key or known_key(paths)
    if key is None:
        raise DatabaseUnavailable("this home has not met its database yet")
    text = contacts.unsealed(text, stand_in=_stand_in(paths), key=key)
    if f'"subject":"{SEALED}' in text:
        raise UnstorableWrite(
            f"whose private chat it is was sealed under another {STAND_IN_FILE}"
        )
    return text


def readable(paths: HomePaths, text: str) -> str:
    """Return *text* with all opened in it that this home can open."""
    try:
        return unsealed(paths, text)
    except (DatabaseUnavailable, JournalUnavailable, UnstorableWrite):
        return text


def known_key(paths: HomePaths) -> bytes | None:
    """Return this home's copy of the key; None until it has met its database."""
    return _read(paths.state / KEY_FILE)


def remember_key(paths: HomePaths, key: str) -> None:
    """Keep the database's *key* (hex) for the hooks of this home."""
    path = paths.state / KEY_FILE
    wanted = bytes.fromhex(key)
    if known_key(paths) == wanted:
        return
    _fresh(path, wanted).replace(path)
    with _mutex:
        _keys[path] = wanted


def _stand_in(paths: HomePaths) -> bytes:
    """Return this home's stand-in, made when the first process wants one."""
    path = paths.state / STAND_IN_FILE
    if (known := _read(path)) is not None:
        return known
    try:
        fresh = _fresh(path, secrets.token_bytes(32))
        # Never in the place of another process's, which may have sealed something.
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
        fresh.unlink()
        made = path.read_bytes()
    except OSError as exc:
        raise JournalUnavailable(f"cannot write {path}: {exc.strerror}") from exc
    with _mutex:
        _keys[path] = made
    log.warning(
        "this home has never met its database: what private chats say is kept, and "
        "can be recalled once it has"
    )
    return made


def _read(path: Path) -> bytes | None:
    with _mutex:
        if path not in _keys:
            try:
                _keys[path] = path.read_bytes()
            except OSError:
                return None
        return _keys[path]


def _fresh(path: Path, content: bytes) -> Path:
    """Write *content* into a new file beside *path*, 0600, and return that."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    return fresh
