"""A HERMES_HOME with the provider in it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from conformance_kit.adapter import Adapter, merged

ROOM = 200_000
"""Characters that MEMORY.md may hold: many checks write into one."""


@dataclass(frozen=True)
class Home:
    """One profile of the host."""

    path: Path
    identity: str = "default"
    """The profile's name."""

    @classmethod
    def make(
        cls, adapter: Adapter, path: Path, *, silent: bool = False, **rest: str
    ) -> Home:
        """Make one whose provider is the adapter's."""
        path.mkdir(parents=True)
        home = cls(path, **rest)
        home.configure(adapter, silent=silent)
        if adapter.plugin is not None:
            folder = path / "plugins" / adapter.name
            shutil.copytree(
                adapter.plugin, folder, ignore=shutil.ignore_patterns("__pycache__")
            )
        return home

    def configure(self, adapter: Adapter, *, silent: bool) -> None:
        """Write config.yaml; *silent* cuts the provider off from its network."""
        config = merged(adapter.config, (silent and adapter.silent) or {})
        memory = {
            "provider": adapter.name,
            "memory_char_limit": ROOM,
            "user_char_limit": ROOM,
        }
        # JSON is YAML.
        text = json.dumps(merged(config, {"memory": memory}))
        (self.path / "config.yaml").write_text(text, encoding="utf-8")

    def enter(self) -> None:
        """Make it this process's home."""
        os.environ["HERMES_HOME"] = str(self.path)
