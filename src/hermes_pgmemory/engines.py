"""Sharing: one engine per process, HERMES_HOME and database."""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path
from typing import Final

from hermes_pgmemory.config import Settings
from hermes_pgmemory.engine import Engine
from hermes_pgmemory.paths import HomePaths

EXIT_S: Final = 1.0
"""Seconds that engines nobody closed may drain when the interpreter ends."""

Key = tuple[str, str, str, str]

_mutex = threading.Lock()
_engines: dict[Key, tuple[Engine, int]] = {}


def acquire(home: Path, settings: Settings) -> Engine:
    """Return this process's engine for *home*, making it if need be.

    Raises:
        JournalUnavailable: The home's journal cannot be used.
    """
    key = _key(home, settings)
    with _mutex:
        engine, references = _engines.get(key) or (None, 0)
        if engine is None:
            engine = Engine(HomePaths(home), settings)
        _engines[key] = engine, references + 1
        return engine


def release(engine: Engine, *, close: bool) -> None:
    """Give back one reference; with *close*, the last one closes the engine.

    Without it an unused engine stays, idle, for the process's next provider.
    """
    key = _key(engine.paths.home, engine.settings)
    with _mutex:
        current, references = _engines.get(key) or (None, 0)
        if current is not engine:
            return
        _engines[key] = engine, max(0, references - 1)
        if references > 1 or not close:
            return
        del _engines[key]
    engine.close()


def _key(home: Path, settings: Settings) -> Key:
    return (
        str(home),
        settings.dsn.get_secret_value(),
        settings.embed_url,
        settings.embed_model,
    )


def close_all() -> None:
    """Stop what is left when the interpreter ends; the journal keeps the rest."""
    with _mutex:
        left = [engine for engine, _ in _engines.values()]
        _engines.clear()
    for engine in left:
        engine.close(timeout_s=EXIT_S)


def _forget_after_fork() -> None:
    """Start afresh in a forked child."""
    global _mutex  # noqa: PLW0603 - the parent's thread may hold the old one
    _mutex = threading.Lock()
    for engine, _ in _engines.values():
        engine.abandon()
    _engines.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget_after_fork)
