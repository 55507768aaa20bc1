"""Sharing: one engine per process, HERMES_HOME and engine settings."""

from __future__ import annotations

import atexit
import os
import threading
from collections import defaultdict, deque
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from hermes_pgmemory.config import Settings
from hermes_pgmemory.engine import Engine
from hermes_pgmemory.paths import HomePaths

EXIT_S: Final = 1.0
"""Seconds that engines nobody closed may drain when the interpreter ends."""

Key = tuple[str, ...]

_SHAPING: Final = (
    "dsn",
    "dsn_read",
    "embed_url",
    "embed_model",
    "embed_protocol",
    "embed_api_key_env",
    "embed_query_prefix",
    "embed_document_prefix",
    "embed_on_write",
    "embed_write_retries",
    "embed_write_backoff",
    "write_queue_maxsize",
    "journal_quota_mb",
    "decay_half_life_days",
)
"""Settings an engine is built from; agents that differ in them do not share one."""

_mutex = threading.Lock()
_engines: dict[Key, tuple[Engine, int]] = {}
_gates: defaultdict[Key, threading.Lock] = defaultdict(threading.Lock)
"""Held while an engine opens or closes: its successor must find its journal."""
_forgotten: deque[Engine] = deque()
"""References of providers the garbage collector took. It runs in the middle of
anything, on any thread, so it may only leave a note here."""


def acquire(home: Path, settings: Settings) -> Engine:
    """Return this process's running engine for *home*, making it if need be.

    Raises:
        JournalUnavailable: The home's journal cannot be used.
    """
    key = _key(home, settings)
    with _mutex:
        gate = _gates[key]
    with gate:
        with _mutex:
            _count_forgotten()
            engine, references = _engines.get(key) or (None, 0)
        if engine is None:
            engine = Engine(HomePaths(home), settings)
        engine.start()
        with _mutex:
            _engines[key] = engine, references + 1
        return engine


def release(engine: Engine) -> None:
    """Give back one reference; the last one closes the engine."""
    key = _key(engine.paths.home, engine.settings)
    with _mutex:
        gate = _gates[key]
    with gate:
        with _mutex:
            _count_forgotten()
            if _drop(engine) > 0:
                return
            del _engines[key]
        engine.close()


def forget(engine: Engine) -> None:
    """Note that a reference is gone; the engine stays for the next provider."""
    _forgotten.append(engine)


def _count_forgotten() -> None:
    while _forgotten:
        _drop(_forgotten.popleft())


def _drop(engine: Engine) -> int:
    """Count one reference less; return how many are left, 1 if it is not shared."""
    key = _key(engine.paths.home, engine.settings)
    current, references = _engines.get(key) or (None, 0)
    if current is not engine:
        return 1
    _engines[key] = engine, references - 1
    return references - 1


def _key(home: Path, settings: Settings) -> Key:
    values = (getattr(settings, name) for name in _SHAPING)
    words = (
        value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for value in values
    )
    return (str(home), *words)


def close_all() -> None:
    """Stop what is left when the interpreter ends; the journal keeps the rest."""
    with _mutex:
        left = [engine for engine, _ in _engines.values()]
        _engines.clear()
    for engine in left:
        engine.close(timeout_s=EXIT_S)


def _start_afresh() -> None:
    """Let go of everything in a forked child; the parent's threads held the locks."""
    global _mutex  # noqa: PLW0603
    _mutex = threading.Lock()
    _gates.clear()
    _forgotten.clear()
    for engine, _ in _engines.values():
        engine.abandon()
    _engines.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_start_afresh)
