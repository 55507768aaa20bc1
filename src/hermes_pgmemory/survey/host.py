"""What lies on this host: door, settings, journal, agents, servers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory import door, journal, settings_file, telemetry
from hermes_pgmemory.config import Settings, parse
from hermes_pgmemory.embed import local_servers
from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.errors import PgMemoryError
from hermes_pgmemory.paths import PROVIDER, HomePaths
from hermes_pgmemory.survey.parts import SETUP, Part, State, guarded, size

DEAD_LETTERS: Final = "see `hermes-pgvector replay --dead --list`"


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
        detail = f"running, process {status.pid}, {size(status.bytes_on_disk)}"
        return Part(State.OK, detail, facts)
    if status.bytes_on_disk:
        detail = f"not running, starts on demand, {size(status.bytes_on_disk)}"
        return Part(State.OFF, detail, facts)
    return Part(State.OFF, "not set up", facts)


def local_model() -> Part:
    """Look at this host's own embedding models: one process for each that is in use."""
    return guarded(_local_model)


def _local_model() -> Part:
    running = local_servers()
    if not running:
        return Part(State.OFF, "not running, starts on demand", {"running": False})
    words = [
        f"process {one.pid}" + (f", {size(one.rss_bytes)}" if one.rss_bytes else "")
        for one in running
    ]
    facts = {
        "running": True,
        "pid": running[0].pid,
        "bytes": sum(one.rss_bytes or 0 for one in running) or None,
        "pids": [one.pid for one in running],
    }
    return Part(State.OK, f"running, {'; '.join(words)}", facts)


def look_at_door(home: Path) -> Part:
    """Look at the plugin directory of the host."""
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


def look_at_provider(home: Path) -> Part:
    """Look whether the host is told to use us."""
    active = settings_file.active_provider(HomePaths(home).config)
    facts = {"active": active}
    if active == PROVIDER:
        return Part(State.OK, f"memory.provider is {PROVIDER}", facts)
    named = f"memory.provider is {active}" if active else "no memory.provider is set"
    return Part(State.OFF, f"{named}: {SETUP} to change that", facts)


def look_at_settings(home: Path) -> tuple[Settings | None, Part]:
    """Read the settings, and tell of those that are wrong."""
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


def look_at_journal(home: Path) -> Part:
    """Look at what waits to be stored, and for how long."""
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


def look_at_agents(home: Path) -> Part:
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
