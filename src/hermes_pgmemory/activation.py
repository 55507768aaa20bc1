"""Being the host's memory provider: switched on, and off as if it never was.

Before config.yaml is changed, what the change replaces is noted in our own folder.
Switching off puts exactly that back while the file is still as we left it; where the
operator or the host has edited it since, only our own words are taken out.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from hermes_pgmemory import door, settings_file
from hermes_pgmemory.config import SECTION
from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.paths import PROVIDER, HomePaths

NOTE_FILE: Final = "before-setup.json"


class _Note(BaseModel):
    """What config.yaml said before us."""

    provider: str = ""
    """`memory.provider` before us."""
    after: str = ""
    """Checksum of the file as we left it; "" where that is not known."""
    existed: bool = True
    """Whether there was a file at all."""
    undo: list[tuple[int, int, list[str]]] = []
    """Ranges of lines as we left them, and the lines that were there before."""
    settings: dict[str, Any] = {}
    """Settings that the change wrote, for a later setup."""
    switched_off: bool = False
    """Whether those settings went out of the file with us."""


def switch_on(paths: HomePaths, changes: Mapping[str, Any]) -> bool:
    """Point the host at us and write *changes*, settings below `plugins.pgvector`.

    Returns:
        Whether config.yaml had to be written.

    Raises:
        ConfigError: A file cannot be read or written.
    """
    text = settings_file.text_of(paths.config)
    note, before = _note_before(paths, text)
    edits = {f"{SECTION}.{key}": value for key, value in changes.items()}
    edits["memory.provider"] = PROVIDER
    if (enabled := _plugins_with_ours(paths)) is not None:
        edits["plugins.enabled"] = enabled
    note.settings |= changes
    # Noted first, without the lines: a crash in between must not forget the provider,
    # nor the settings.
    _write(paths, note.model_copy(update={"after": ""}))
    written = settings_file.update(paths.config, edits)
    note.switched_off, note.after = False, ""
    if before is not None:
        after = settings_file.text_of(paths.config)
        note.after, note.undo = _checksum(after), _undo(after, before)
    _write(paths, note)
    return written


def switch_off(paths: HomePaths) -> bool:
    """Take ourselves out of config.yaml; the settings we wrote are remembered.

    Returns:
        Whether the host was pointed at us.

    Raises:
        ConfigError: A file cannot be read or written.
    """
    was_active = settings_file.active_provider(paths.config) == PROVIDER
    note = _read(paths)
    text = settings_file.text_of(paths.config)
    if was_active and note.after == _checksum(text):
        before = _undone(text, note) if note.existed else None
        if settings_file.put_back(paths.config, before, instead_of=text):
            _write(paths, _Note(settings=note.settings, switched_off=True))
            return True
    changes: dict[str, Any] = {}
    if was_active:
        changes["memory.provider"] = note.provider
    enabled = settings_file.enabled_plugins(paths.config) or []
    if PROVIDER in enabled:
        changes["plugins.enabled"] = tuple(n for n in enabled if n != PROVIDER)
    if changes:
        settings_file.update(paths.config, changes)
        _file(paths).unlink(missing_ok=True)
    return was_active


def remembered_settings(paths: HomePaths) -> dict[str, Any]:
    """Return the settings that went out of config.yaml when we were switched off."""
    note = _read(paths)
    return note.settings if note.switched_off else {}


def _note_before(paths: HomePaths, text: str) -> tuple[_Note, str | None]:
    """Return what to note, and the text before us; None if that is lost."""
    provider = settings_file.active_provider(paths.config)
    note = _read(paths)
    off = note.switched_off
    if provider != PROVIDER or (_is_anothers(paths) and (off or note == _Note())):
        existed = paths.config.exists()
        return _Note(provider=provider, existed=existed, switched_off=off), text
    if note.after and note.after == _checksum(text):
        return note, _undone(text, note)
    return note, None


def _is_anothers(paths: HomePaths) -> bool:
    """Tell whether our name in config.yaml may mean the plugin that stood in our place.

    hermes-memory-pgvector, whose databases we take over, has the same name.
    """
    return door.displaced(paths.home) is not None


def _plugins_with_ours(paths: HomePaths) -> tuple[str, ...] | None:
    """Return the host's allow-list with `preload` on it; None to leave it.

    A missing list is filled by the host itself, once, with what is installed; we
    must not get in before that where there is anything else.
    """
    enabled = settings_file.enabled_plugins(paths.config)
    others = paths.door.parent.iterdir()
    if enabled is None and any(path != paths.door for path in others):
        return None
    names = enabled or []
    return tuple(names) if PROVIDER in names else (*names, PROVIDER)


def _undo(after: str, before: str) -> list[tuple[int, int, list[str]]]:
    new, old = after.splitlines(keepends=True), before.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, new, old, autojunk=False)
    return [
        (start, end, old[low:high])
        for tag, start, end, low, high in matcher.get_opcodes()
        if tag != "equal"
    ]


def _undone(text: str, note: _Note) -> str:
    lines = text.splitlines(keepends=True)
    for start, end, old in reversed(note.undo):
        lines[start:end] = old
    return "".join(lines)


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _file(paths: HomePaths) -> Path:
    return paths.state / NOTE_FILE


def _read(paths: HomePaths) -> _Note:
    """Return the note; an empty one where there is none, or none that we know."""
    try:
        return _Note.model_validate_json(_file(paths).read_bytes())
    except (FileNotFoundError, ValidationError):
        return _Note()


def _write(paths: HomePaths, note: _Note) -> None:
    file = _file(paths)
    fresh = file.with_name(f"{NOTE_FILE}.{os.getpid()}")
    try:
        paths.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with os.fdopen(os.open(fresh, flags, 0o600), "w", encoding="utf-8") as out:
            out.write(note.model_dump_json())
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(file)
    except OSError as exc:
        raise ConfigError({str(file): f"cannot be written: {exc.strerror}"}) from None
