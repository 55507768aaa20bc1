"""Look at every part on its own; start, change and wait for nothing.

Whatever is down says so itself, and never hides the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory import door, journal, settings_file, telemetry
from hermes_pgmemory.config import Settings, parse
from hermes_pgmemory.embed import local_servers, make_embedder
from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.errors import PgMemoryError, Unavailable
from hermes_pgmemory.models import EmbeddingModel, ThemeCount
from hermes_pgmemory.paths import PROVIDER, HomePaths
from hermes_pgmemory.store import DatabaseFacts, Store, migrate
from hermes_pgmemory.store.failures import lacking
from hermes_pgmemory.store.standby import KEY

TIMEOUT_S: Final = 5.0
"""Seconds the database may take to answer."""

SETUP: Final = "run `hermes-pgvector setup`"
DEAD_LETTERS: Final = "see `hermes-pgvector replay --dead --list`"


class State(StrEnum):
    """How a part is."""

    OK = "ok"
    OFF = "off"
    """Not running, and nothing is wrong with that."""
    PROBLEM = "problem"
    """An operator must change something."""
    UNAVAILABLE = "unavailable"
    """Does not answer now."""
    UNKNOWN = "unknown"
    """Cannot be told, because another part has a problem."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the whole."""

    state: State
    detail: str
    """One line for people."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The same for programs."""

    def as_data(self) -> dict[str, Any]:
        """Return what `--json` shows."""
        return {"state": self.state, "detail": self.detail, **self.facts}


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
    settings, settings_part = _settings(home)
    database, facts, themes = _database(home, settings, count=count)
    parts = {
        "door": _door(home),
        "provider": _guarded(lambda: _provider(home)),
        "settings": settings_part,
        "database": database,
        **_standby(settings),
        "schema": _schema(database, facts),
        "model": _guarded(lambda: _model(settings, facts)),
        "journal": _journal(home),
        "agents": _agents(home),
        "embedded server": server(home),
        "local model": local_model(),
    }
    return Survey(parts, themes)


def server(home: Path) -> Part:
    """Look at the embedded PostgreSQL of *home*."""
    status = EmbeddedServer(HomePaths(home).server).status()
    facts = {
        "running": status.running,
        "pid": status.pid,
        "version": status.version,
        "data": str(status.data_dir),
        "log": str(status.log),
        "bytes": status.bytes_on_disk,
    }
    if status.running:
        detail = f"running, process {status.pid}, {_size(status.bytes_on_disk)}"
        return Part(State.OK, detail, facts)
    if status.bytes_on_disk:
        detail = f"not running, starts on demand, {_size(status.bytes_on_disk)}"
        return Part(State.OFF, detail, facts)
    return Part(State.OFF, "not set up", facts)


def local_model() -> Part:
    """Look at this host's own embedding models: one process for each that is in use."""
    return _guarded(_local_model)


def _local_model() -> Part:
    running = local_servers()
    if not running:
        return Part(State.OFF, "not running, starts on demand", {"running": False})
    words = [
        f"process {one.pid}" + (f", {_size(one.rss_bytes)}" if one.rss_bytes else "")
        for one in running
    ]
    facts = {
        "running": True,
        "pid": running[0].pid,
        "bytes": sum(one.rss_bytes or 0 for one in running) or None,
        "pids": [one.pid for one in running],
    }
    return Part(State.OK, f"running, {'; '.join(words)}", facts)


def _door(home: Path) -> Part:
    status = door.inspect(home)
    facts = {"path": str(status.path), "version": status.version, "door": status.state}
    match status.state:
        case door.DoorState.CURRENT:
            without = "; without the tab, dashboard/ there is not ours"
            detail = f"{status.path}{without if status.foreign_tab else ''}"
            return Part(State.OK, detail, facts)
        case door.DoorState.FOREIGN:
            detail = f"{status.path} belongs to another plugin: move it away"
        case door.DoorState.MISSING:
            detail = f"nothing in {status.path}: {SETUP}"
        case _:
            detail = f"{status.path} is {status.state}: run `hermes-pgvector install`"
    return Part(State.PROBLEM, detail, facts)


def _provider(home: Path) -> Part:
    active = settings_file.active_provider(HomePaths(home).config)
    facts = {"active": active}
    if active == PROVIDER:
        return Part(State.OK, f"memory.provider is {PROVIDER}", facts)
    named = f"memory.provider is {active}" if active else "no memory.provider is set"
    return Part(State.OFF, f"{named}: {SETUP} to change that", facts)


def _settings(home: Path) -> tuple[Settings | None, Part]:
    path = HomePaths(home).config
    try:
        parsed = parse(settings_file.load_section(path))
    except PgMemoryError as exc:
        return None, Part(State.PROBLEM, str(exc))
    if parsed.problems:
        lines = [f"{key}: {problem}" for key, problem in parsed.problems.items()]
        facts = {"problems": dict(parsed.problems)}
        return parsed.settings, Part(State.PROBLEM, "; ".join(lines), facts)
    return parsed.settings, Part(State.OK, str(path))


def _database(
    home: Path, settings: Settings | None, *, count: bool
) -> tuple[Part, DatabaseFacts | PgMemoryError | None, Sequence[ThemeCount]]:
    """Ask the database everything over one connection."""
    if settings is None:
        return Part(State.UNKNOWN, "the settings cannot be read"), None, ()
    dsn, kind = settings.dsn.get_secret_value(), "configured"
    if not dsn:
        kind = "embedded"
        embedded = EmbeddedServer(HomePaths(home).server)
        if not embedded.status().running:
            detail = "the embedded server is not running"
            return Part(State.OFF, detail, {"kind": kind}), None, ()
        dsn = embedded.dsn
    try:
        with closing(Store(dsn, pool_size=1)) as store:
            return _asked(store, kind, count=count)
    except PgMemoryError as exc:
        return _failed(exc, {"kind": kind}), None, ()


def _asked(
    store: Store, kind: str, *, count: bool
) -> tuple[Part, DatabaseFacts | PgMemoryError | None, Sequence[ThemeCount]]:
    try:
        facts = store.verify(timeout_s=TIMEOUT_S, whole=False)
    except Unavailable:
        raise
    except PgMemoryError as exc:
        return Part(State.OK, f"{kind}, answers", {"kind": kind}), exc, ()
    version = f"{facts.server_version // 10_000}.{facts.server_version % 10_000}"
    told = {"kind": kind, "postgresql": version, "pgvector": facts.extension_version}
    detail = f"{kind}, PostgreSQL {version}, pgvector {facts.extension_version}"
    themes = store.counts(timeout_s=TIMEOUT_S) if count else ()
    return Part(State.OK, detail, told), facts, themes


def _standby(settings: Settings | None) -> Mapping[str, Part]:
    """Ask the server that recall asks first, where there is one."""
    dsn = settings.dsn_read.get_secret_value() if settings else ""
    return {"standby": _guarded(lambda: _reading(dsn))} if dsn else {}


def _reading(dsn: str) -> Part:
    with closing(Store(dsn, pool_size=1, key=KEY)) as store:
        behind_s = store.behind_s(timeout_s=TIMEOUT_S)
    if behind_s is None:
        return Part(State.OK, "answers, and is a primary itself", {"behind_s": None})
    detail = "answers, and has replayed all that it received"
    if behind_s:
        detail = f"answers, and replays what was committed {behind_s:.0f} s ago"
    return Part(State.OK, detail, {"behind_s": behind_s})


def _schema(database: Part, facts: DatabaseFacts | PgMemoryError | None) -> Part:
    if isinstance(facts, PgMemoryError):
        return _failed(facts, {})
    if facts is None:
        return Part(State.UNKNOWN, f"the database is {database.state}")
    if facts.lacks:
        return Part(State.PROBLEM, lacking(facts.lacks), {"lacks": list(facts.lacks)})
    version, words = migrate.shipped()[-1].version, facts.text_search_config
    detail = f"up to date at {version}, words by {words}"
    told = {"version": version, "text_search_config": words}
    return Part(State.OK, detail, told)


def _model(
    settings: Settings | None, facts: DatabaseFacts | PgMemoryError | None
) -> Part:
    """Compare the configured model's name with the database's; asks no model."""
    if settings is None:
        return Part(State.UNKNOWN, "the settings cannot be read")
    with closing(make_embedder(settings)) as embedder:
        configured = embedder.name
    where = "an endpoint" if settings.embed_url else "this host"
    told: dict[str, Any] = {"configured": configured}
    stored = facts.model if isinstance(facts, DatabaseFacts) else None
    if stored is None:
        return Part(State.UNKNOWN, f"{configured} on {where}", told)
    told |= {"database": stored.name, "dimension": stored.dimension}
    return _compared(configured, stored, where, told)


def _compared(
    configured: str, stored: EmbeddingModel, where: str, told: Mapping[str, Any]
) -> Part:
    if configured == stored.name:
        detail = f"{configured} on {where}, {stored.dimension} dimensions"
        return Part(State.OK, detail, told)
    detail = (
        f"the database's vectors come from {stored.name}, the configuration says "
        f"{configured}: set plugins.pgvector.embed_model back"
    )
    return Part(State.PROBLEM, detail, told)


def _journal(home: Path) -> Part:
    status = journal.inspect(HomePaths(home).journal)
    told = {
        "pending": status.pending,
        "oldest_age_s": status.oldest_age_s,
        "dead_letters": status.dead_letters,
        "bytes": status.bytes,
        "outage": _outage(status),
    }
    if not status.pending and not status.dead_letters:
        return Part(State.OK, "empty", told)
    words: list[str] = []
    if status.pending:
        age = f", the oldest {status.oldest_age_s or 0:.0f} s old"
        words.append(f"{status.pending} writes wait{age}")
    if status.dead_letters:
        count = status.dead_letters
        words.append(f"{count} writes were refused by the database: {DEAD_LETTERS}")
    state = State.PROBLEM if status.dead_letters else State.OK
    if outage := _outage(status):
        words.append(f"nothing is stored since {outage['since']}: {outage['reason']}")
        state = State.PROBLEM if status.dead_letters else State.UNAVAILABLE
    return Part(state, "; ".join(words), told)


def _agents(home: Path) -> Part:
    """Add up what living processes of *home* tell; those that wrote or recalled."""
    told = list(telemetry.living(HomePaths(home).metrics))
    stored = round(sum(one.stored_last_minute for one in told))
    trouble = {name: why for one in told for name, why in one.trouble.items()}
    facts = {
        "processes": len(told),
        "stored_last_minute": stored,
        "trouble": trouble,
    }
    if not told:
        return Part(State.OFF, "no process runs", facts)
    words = [f"{len(told)} running, {stored} writes stored in the last minute"]
    words += [f"the last try of the {name} failed: {trouble[name]}" for name in trouble]
    return Part(State.UNAVAILABLE if trouble else State.OK, "; ".join(words), facts)


def _outage(status: journal.JournalStatus) -> dict[str, Any] | None:
    """Return since when, and why, what is pending is not stored, if so."""
    if status.outage_since is None:
        return None
    since = datetime.fromtimestamp(status.outage_since, UTC)
    return {
        "since": since.isoformat(timespec="seconds"),
        "reason": status.outage_reason,
    }


def _guarded(look_at: Callable[[], Part]) -> Part:
    try:
        return look_at()
    except PgMemoryError as exc:
        return _failed(exc, {})


def _failed(exc: PgMemoryError, facts: Mapping[str, Any]) -> Part:
    state = State.UNAVAILABLE if isinstance(exc, Unavailable) else State.PROBLEM
    return Part(state, str(exc), facts)


def _size(count: int) -> str:
    return f"{count / 1_000_000:.0f} MB"
