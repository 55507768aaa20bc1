"""What the checks share, each part fetched once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from hermes_pgmemory.cli import _database
from hermes_pgmemory.config import Settings, parse
from hermes_pgmemory.embed import Embedder, make_embedder
from hermes_pgmemory.errors import PgMemoryError, SchemaError
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.settings_file import load_section
from hermes_pgmemory.store import probe
from hermes_pgmemory.store.probe import Server
from hermes_pgmemory.survey import SETUP, Survey, look

T = TypeVar("T")


class Level(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    NOTE = "note"
    """Works, but could be better."""
    WRONG = "wrong"
    """An operator must change something."""
    UNAVAILABLE = "unavailable"
    """Does not answer now."""
    UNKNOWN = "unknown"
    """Cannot be told, because another check failed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    level: Level
    detail: str
    """One line."""
    fix: str = ""
    """What to do about it."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The same for programs."""


class Cause(Exception):
    """Another check has reported already why this cannot be told."""


class World:
    """One home, and all that its settings name."""

    def __init__(self, home: Path) -> None:
        """Look at nothing yet."""
        self.paths = HomePaths(home)
        self.closing = ExitStack()
        self.checking = ""
        """The check that runs: a failure is told in full by the one of its name."""
        self._failed: set[str] = set()

    @cached_property
    def survey(self) -> Survey:
        """What `status` shows, with the embedded server up."""
        with suppress(Cause):
            _ = self.dsn
        return look(self.paths.home)

    @property
    def settings(self) -> Settings:
        """The settings, with defaults for what is wrong with them."""
        return self._once("settings", lambda: self._settings)

    @property
    def dsn(self) -> str:
        """Where the database is; the embedded one is started."""
        return self._once("database", lambda: self._dsn)

    @property
    def server(self) -> Server:
        """The database's server."""
        return self._once("database", lambda: self._server)

    @property
    def embedder(self) -> Embedder:
        """The configured one."""
        return self._once("embedder", lambda: self._embedder)

    def failed(self, what: str) -> None:
        """Remember that *what* is reported and of no use to others."""
        self._failed.add(what)

    def need(self, what: str) -> None:
        """Go on only if *what* has not failed."""
        if what in self._failed:
            raise Cause(f"see {what}")

    def _once(self, what: str, get: Callable[[], T]) -> T:
        self.need(what)
        try:
            return get()
        except (PgMemoryError, OSError):
            if what == self.checking:
                self.failed(what)
                raise
            raise Cause(f"see {what}") from None

    @cached_property
    def _settings(self) -> Settings:
        return parse(load_section(self.paths.config)).settings

    @cached_property
    def _dsn(self) -> str:
        embedded = not self.settings.dsn.get_secret_value()
        if embedded and not self.paths.server.is_dir():
            raise SchemaError(f"no database yet: {SETUP}")
        return _database.dsn_of(self.settings, self.paths, start=True)

    @cached_property
    def _server(self) -> Server:
        return probe.look(self.dsn)

    @cached_property
    def _embedder(self) -> Embedder:
        return self.closing.enter_context(closing(make_embedder(self.settings)))
