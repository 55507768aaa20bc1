"""Look at every part on its own; start, change and wait for nothing.

Whatever is down says so itself, and never hides the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_pgmemory.models import ThemeCount
from hermes_pgmemory.survey import database, host
from hermes_pgmemory.survey.host import local_model, server
from hermes_pgmemory.survey.parts import SETUP, Part, State, guarded

__all__ = ["SETUP", "Part", "State", "Survey", "local_model", "look", "server"]


@dataclass(frozen=True, slots=True)
class Survey:
    """All parts, in the order in which one needs the next, and the themes."""

    parts: Mapping[str, Part]
    themes: Sequence[ThemeCount]


def look(home: Path, *, count: bool = True) -> Survey:
    """Look at everything below *home* and at what its settings name.

    Counting what the themes hold takes a while where there are many rows; without
    *count* there are no themes.
    """
    settings, settings_part = host.look_at_settings(home)
    looked = database.ask(home, settings, count=count)
    parts = {
        "door": host.look_at_door(home),
        "provider": guarded(lambda: host.look_at_provider(home)),
        "settings": settings_part,
        "database": looked.part,
        **database.look_at_standby(settings),
        "schema": database.look_at_schema(looked),
        "model": guarded(lambda: database.look_at_model(settings, looked)),
        **database.look_at_indexes(looked.indexes),
        "journal": host.look_at_journal(home),
        "agents": host.look_at_agents(home),
        "embedded server": server(home),
        "local model": local_model(),
    }
    return Survey(parts, looked.themes)
