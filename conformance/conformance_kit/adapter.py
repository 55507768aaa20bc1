"""What has to be told of a provider: where it is, and how it recalls."""

from __future__ import annotations

import os
import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROVIDERS = Path(__file__).parents[1] / "providers"


class Unfit(Exception):
    """An adapter cannot be used; the message names what to change."""


@dataclass(frozen=True)
class Recall:
    """A tool that recalls, as the chat model would call it."""

    tool: str
    query: str
    """The argument that takes the question."""
    arguments: Mapping[str, Any]
    """The other arguments; ask for 20 results where that can be said."""
    hits: str
    """The key of the answer that holds the list of results."""
    text: str
    """The key of a result that holds what was remembered, and nothing else."""


@dataclass(frozen=True)
class Adapter:
    """One provider, and what its home's config.yaml says."""

    path: Path
    name: str
    """What `memory.provider` says."""
    version: str
    """The distribution whose version the report names; or a version."""
    plugin: Path | None
    """The directory to put below `plugins/`; None for one that the host bundles."""
    config: Mapping[str, Any]
    """What config.yaml holds besides `memory`."""
    silent: Mapping[str, Any] | None
    """What is put over it where the network must not answer; None: there is none."""
    notes: Recall | None
    """How to recall what the built-in memory tool wrote."""
    turns: Recall | None
    """How to recall what was said."""


def load(name: str, silent_port: int = 9) -> Adapter:
    """Read the adapter *name*: a file, or one of `providers/`.

    `${VARIABLE}` in it stands for the environment's; `${SILENT_PORT}` for a port on
    127.0.0.1 that takes connections and never says a word.

    Raises:
        Unfit: There is no such file, or it lacks something.
    """
    path = Path(name) if name.endswith(".toml") else PROVIDERS / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in PROVIDERS.glob("*.toml")))
        raise Unfit(f"no adapter {path}; give a .toml file, or one of {known}")
    given = {**os.environ, "SILENT_PORT": str(silent_port), "HERE": str(path.parent)}
    raw = _filled(tomllib.loads(path.read_text(encoding="utf-8")), given, path)
    if not isinstance(raw.get("name"), str):
        raise Unfit(f"{path}: name must say what memory.provider says")
    return Adapter(
        path=path.resolve(),
        name=raw["name"],
        version=raw.get("version", ""),
        plugin=Path(raw["plugin"]) if raw.get("plugin") else None,
        config=raw.get("config", {}),
        silent=raw.get("silent"),
        notes=_recall(raw, "notes", path),
        turns=_recall(raw, "turns", path),
    )


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one configuration over another."""
    both = dict(below)
    for key, value in above.items():
        under = both.get(key)
        inner = isinstance(value, Mapping) and isinstance(under, Mapping)
        both[key] = merged(under, value) if inner else value
    return both


def _recall(raw: Mapping[str, Any], name: str, path: Path) -> Recall | None:
    if name not in raw:
        return None
    try:
        return Recall(**{"arguments": {}, **raw[name]})
    except TypeError as exc:
        raise Unfit(f"{path}: [{name}]: {exc}") from None


def _filled(value: Any, given: Mapping[str, str], path: Path) -> Any:
    if isinstance(value, str):
        try:
            return string.Template(value).substitute(given)
        except KeyError as exc:
            raise Unfit(f"{path}: set the environment variable {exc.args[0]}") from None
    if isinstance(value, dict):
        return {key: _filled(one, given, path) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, given, path) for one in value]
    return value
