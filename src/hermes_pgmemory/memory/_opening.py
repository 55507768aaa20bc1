"""Which home, settings and rows a program gets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory.config import ENVIRONMENT, Settings, parse
from hermes_pgmemory.engine import Engine
from hermes_pgmemory.errors import ConfigError, DatabaseUnavailable
from hermes_pgmemory.paths import HomePaths, default_home, program_home
from hermes_pgmemory.session import Session
from hermes_pgmemory.settings_file import load_section
from hermes_pgmemory.store.dsn import place_of

SET_DSN: Final = f"set dsn or {ENVIRONMENT['dsn']}, try again"


def folder_of(dsn: str | None, home: str | os.PathLike[str] | None) -> Path:
    """Return the folder of a program's journal."""
    if home is not None:
        return Path(home)
    return default_home() if dsn is None else program_home(place_of(dsn, key="dsn"))


def settings_of(folder: Path, dsn: str | None, given: Mapping[str, Any]) -> Settings:
    """Return the settings of a program: its own, then its home's.

    Raises:
        ConfigError: Something is wrong with them.
    """
    section = load_section(HomePaths(folder).config)
    if dsn is not None:
        if not dsn.strip():
            raise ConfigError({"dsn": "is empty; leave it out to take the home's"})
        # A standby in the file belongs to the file's own primary.
        section = {k: v for k, v in section.items() if k != "dsn_read"} | {"dsn": dsn}
    return parse({**section, **given}).checked()


def with_subject(session: Session, engine: Engine) -> Session:
    """Return *session* with its contact, if it has one, hidden by the database's key.

    Raises:
        DatabaseUnavailable: Nobody of this home has ever met the database.
    """
    if session.contact is None:
        return session
    veil = engine.veil()
    if not veil.is_final:
        raise DatabaseUnavailable(
            "a private chat's memory needs the database's key, and this home has never "
            f"met the database: {engine.waiting or SET_DSN}"
        )
    return session.behind(veil)
