"""The settings of one HERMES_HOME: reading them fast, changing them gently.

Three files may hold them, and a later one wins key by key, as in the host:

1. `pgvector/config.json`, what the host's desktop panel writes;
2. `config.yaml`, the operator's file;
3. `config.yaml` of the host's managed scope (HERMES_MANAGED_DIR or /etc/hermes).

`PGMEMORY_DSN` stands in for a `dsn` that none of them gives, `PGMEMORY_DSN_READ` for a
`dsn_read`. Only 2 is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from hermes_pgmemory.config import ENVIRONMENT
from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.foreign_json import TooDeepError, parsed
from hermes_pgmemory.paths import PROVIDER, HomePaths
from hermes_pgmemory.settings_file import _yaml
from hermes_pgmemory.settings_file._edit import edit
from hermes_pgmemory.settings_file._env import expand, has_reference, load_dotenv
from hermes_pgmemory.settings_file._exposed import is_exposed
from hermes_pgmemory.settings_file._replace import locked, replace_text

__all__ = [
    "active_provider",
    "enabled_plugins",
    "is_exposed",
    "load_dotenv",
    "load_section",
    "put_back",
    "text_of",
    "update",
]

_ATTEMPTS: Final = 5
"""How often an update starts again because somebody else changed the file."""

Signature = tuple[int, int, int] | None
"""What tells one version of a file from another; None where there is no file."""


class _Cached(NamedTuple):
    signatures: tuple[Signature, ...]
    section: dict[str, Any]
    refers: bool
    provider: str


_cache: dict[Path, _Cached] = {}


def load_section(config_yaml: Path) -> dict[str, Any]:
    """Return `plugins.pgvector` as the host would see it now.

    A call that finds the files unchanged parses nothing. A missing or empty file is
    an empty section.

    Raises:
        ConfigError: A file cannot be read or parsed; names the file and the line,
            never the content. Such a file must not be taken for an empty one: its
            `dsn` is unknown, not absent.
    """
    cached = _load(config_yaml)
    section = expand(cached.section) if cached.refers else dict(cached.section)
    for key, variable in ENVIRONMENT.items():
        if not section.get(key) and (value := os.environ.get(variable)):
            section[key] = value
    return section


def active_provider(config_yaml: Path) -> str:
    """Return `memory.provider`, or "" where none is set.

    Raises:
        ConfigError: As for `load_section`.
    """
    return _load(config_yaml).provider


def enabled_plugins(config_yaml: Path) -> list[str] | None:
    """Return the host's allow-list `plugins.enabled`; None where there is none.

    Raises:
        ConfigError: The file is not readable YAML.
    """
    enabled = _mapping(_read_yaml(config_yaml), "plugins").get("enabled")
    if not isinstance(enabled, list):
        return None
    return [str(name) for name in cast("list[object]", enabled)]


def _load(config_yaml: Path) -> _Cached:
    panel = HomePaths(config_yaml.parent).state / "config.json"
    managed = Path(os.environ.get("HERMES_MANAGED_DIR") or "/etc/hermes", "config.yaml")
    signatures = (_signature(panel), _signature(config_yaml), _signature(managed))
    cached = _cache.get(config_yaml)
    if cached is not None and cached.signatures == signatures:
        return cached
    layers = (_read_panel(panel), _read_yaml(config_yaml), _read_yaml(managed))
    section: dict[str, Any] = {}
    provider = ""
    for data in layers:
        section.update(_mapping(data, "plugins", PROVIDER))
        provider = str(_mapping(data, "memory").get("provider") or provider)
    cached = _Cached(signatures, section, has_reference(section), provider)
    _cache[config_yaml] = cached
    return cached


def _signature(path: Path) -> Signature:
    try:
        stat = os.stat(path)  # noqa: PTH116 - half the time of Path.stat
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _mapping(data: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return the mapping at *keys*; anything else there is nothing to us."""
    found: Any = data
    for key in keys:
        found = (
            cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
        )
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _read_text(path: Path) -> str:
    """Read *path* as UTF-8; "" where there is no file."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise ConfigError({str(path): f"cannot be read: {exc.strerror}"}) from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = raw.count(b"\n", 0, exc.start) + 1
        raise ConfigError({str(path): f"is not UTF-8 in line {line}"}) from None


def _read_yaml(path: Path) -> dict[str, Any]:
    """Return the two top-level keys that concern us."""
    text = _read_text(path)
    if not text.strip():
        return {}
    try:
        root = _yaml.compose(text)
        sections = ("plugins", "memory")
        data = {key: _yaml.plain(_yaml.child(root, key)) for key in sections}
    except _yaml.YamlProblem as exc:
        raise ConfigError({str(path): f"{exc}; correct it"}) from None
    _refuse_other_shapes(path, data["plugins"], "plugins")
    ours = _mapping(data, "plugins").get(PROVIDER)
    _refuse_other_shapes(path, ours, f"plugins.{PROVIDER}")
    return data


def _refuse_other_shapes(path: Path, value: Any, key: str) -> None:
    if value is not None and not isinstance(value, dict):
        raise ConfigError({str(path): f"{key} is not a mapping; correct it"})


def _read_panel(path: Path) -> dict[str, Any]:
    """Return the desktop panel's flat file in the shape of config.yaml."""
    text = _read_text(path)
    if not text:
        return {}
    try:
        values = parsed(text)
    except TooDeepError as exc:
        raise ConfigError({str(path): f"{exc}; correct or delete it"}) from None
    except json.JSONDecodeError as exc:
        problem = f"not valid JSON in line {exc.lineno}; correct or delete it"
        raise ConfigError({str(path): problem}) from None
    _refuse_other_shapes(path, values, "the document")
    return {"plugins": {PROVIDER: values}}


def update(config_yaml: Path, changes: Mapping[str, Any]) -> bool:
    """Set dotted keys in config.yaml and leave the rest of the file as it is.

    Comments, quotes, order, line ends, mode and owner are kept; a symlink is
    followed; the file is replaced atomically. Updates of several processes come one
    after the other. A missing file is made, 0600.

    Args:
        config_yaml: The file.
        changes: Full dotted key to value: a scalar, a list or a mapping.

    Returns:
        Whether the file had to be written.

    Raises:
        ConfigError: The file cannot be parsed, edited or written; it is untouched.
    """
    paths = {tuple(key.split(".")): value for key, value in changes.items()}
    with locked(HomePaths(config_yaml.parent).state / "config.lock"):
        for _ in range(_ATTEMPTS):
            before = _signature(config_yaml)
            text = _read_text(config_yaml)
            try:
                edited = edit(text, paths)
            except _yaml.YamlProblem as exc:
                raise ConfigError({str(config_yaml): f"{exc}; unchanged"}) from None
            if edited == text:
                return False
            if _signature(config_yaml) == before:
                replace_text(config_yaml, edited)
                return True
    problem = "keeps being changed by another program; try again"
    raise ConfigError({str(config_yaml): problem})


def text_of(config_yaml: Path) -> str:
    """Return the whole file, byte for byte as text; "" where there is none.

    Raises:
        ConfigError: It cannot be read.
    """
    return _read_text(config_yaml)


def put_back(config_yaml: Path, text: str | None, *, instead_of: str) -> bool:
    """Make *text* the whole file; None removes it.

    Returns:
        False, and nothing is done, if the file no longer says *instead_of*.

    Raises:
        ConfigError: The file cannot be read or written; it is untouched.
    """
    with locked(HomePaths(config_yaml.parent).state / "config.lock"):
        if _read_text(config_yaml) != instead_of:
            return False
        if text is None:
            config_yaml.unlink()
        else:
            replace_text(config_yaml, text)
        return True
