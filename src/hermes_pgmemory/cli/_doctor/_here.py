"""Checks of this host: Python, packages, the door, files, disk."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from hermes_pgmemory.cli._doctor._world import Finding, Level, World
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.settings_file import is_exposed
from hermes_pgmemory.survey import SETUP, Part, State

PACKAGE: Final = "hermes-pgmemory"
HOST: Final = "hermes-agent"
SUPPORTED: Final = ((3, 11), (3, 14))
"""The first Python that will do, and the first that is not tried."""
SPARE_BYTES: Final = 256 << 20
"""To be left free on the disk, besides what the journal may take."""
SHOWN: Final = 3

_LEVELS: Final = {
    State.OK: Level.OK,
    State.OFF: Level.NOTE,
    State.PROBLEM: Level.WRONG,
    State.UNAVAILABLE: Level.UNAVAILABLE,
    State.UNKNOWN: Level.UNKNOWN,
}


def python(world: World) -> Finding:
    """Is this Python one that is tested?"""
    del world
    version = ".".join(map(str, sys.version_info[:3]))
    if SUPPORTED[0] <= sys.version_info[:2] < SUPPORTED[1]:
        return Finding(Level.OK, version)
    return Finding(Level.WRONG, f"{version} is not supported", "install Python 3.13")


def packages(world: World) -> Finding:
    """Is everything installed that the package needs?"""
    del world
    fix = f"run `pip install {PACKAGE}` with this Python"
    try:
        own = metadata.version(PACKAGE)
        wanted = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return Finding(Level.WRONG, f"{PACKAGE} is not installed", fix)
    names = [re.split(r"[^\w.-]", line)[0] for line in wanted if "extra ==" not in line]
    found = {name: _version(name) for name in names}
    if missing := [name for name, version in found.items() if version is None]:
        return Finding(Level.WRONG, f"missing: {', '.join(missing)}", fix)
    detail = f"{PACKAGE} {own}, and {len(found)} it needs"
    return Finding(Level.OK, detail, facts={"version": own, "packages": found})


def host(world: World) -> Finding:
    """Is the host in this Python?"""
    del world
    version = _version(HOST)
    if version is None:
        detail = f"{HOST} is not installed for {sys.executable}"
        return Finding(Level.NOTE, detail, "run doctor with the Python of the agents")
    return Finding(Level.OK, f"{HOST} {version}", facts={"version": version})


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def of_part(part: Part, fix: str = "") -> Finding:
    """Tell what `status` tells of a part."""
    level = _LEVELS[part.state]
    return Finding(level, part.detail, "" if level is Level.OK else fix, part.facts)


def door(world: World) -> Finding:
    """Does the host find our plugin, in this release?"""
    return of_part(world.survey.parts["door"], "run `hermes-pgvector install`")


def provider(world: World) -> Finding:
    """Does the host use it?"""
    return of_part(world.survey.parts["provider"], SETUP)


def settings(world: World) -> Finding:
    """Does every key make sense?"""
    finding = of_part(world.survey.parts["settings"], "edit config.yaml")
    if finding.level is Level.WRONG and "problems" not in finding.facts:
        world.failed("settings")
    return finding


def permissions(world: World) -> Finding:
    """Can nobody else read what is ours?"""
    bare = [path for path in _ours(world.paths) if path.stat().st_mode & 0o077]
    config = world.paths.config
    if is_exposed(config, world.settings):
        bare.append(config)
    if not bare:
        return Finding(Level.OK, f"{world.paths.state} is closed to others")
    named = ", ".join(map(str, bare[:SHOWN])) + (" …" if bare[SHOWN:] else "")
    return Finding(
        Level.WRONG,
        f"others may read {named}",
        "run `chmod go= PATH` on each",
        {"paths": [str(path) for path in bare]},
    )


def _ours(paths: HomePaths) -> Iterator[Path]:
    """Yield our folder and what lies in it; PostgreSQL guards its own."""
    if not paths.state.is_dir():
        return
    yield paths.state
    for path in sorted(paths.state.iterdir()):
        if path != paths.server and not path.is_symlink():
            yield path
    if paths.journal.is_dir():
        yield from (path for path in sorted(paths.journal.rglob("*")) if path.is_file())


def disk(world: World) -> Finding:
    """Is there room for what an outage leaves in the journal?"""
    folder = world.paths.home
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    quota = world.settings.journal_quota_mb << 20
    facts = {"free_bytes": free, "quota_bytes": quota}
    detail = f"{free >> 20} MB free, the journal may take {quota >> 20} MB"
    if free >= quota + SPARE_BYTES:
        return Finding(Level.OK, detail, facts=facts)
    fix = "make room, or lower plugins.pgvector.journal_quota_mb"
    return Finding(Level.WRONG, detail, fix, facts)


def journal(world: World) -> Finding:
    """Does anything wait, or lie refused?"""
    part = world.survey.parts["journal"]
    finding = of_part(part, "look at it with `hermes-pgvector replay --help`")
    quota = world.settings.journal_quota_mb << 20
    if part.facts.get("bytes", 0) > quota * 0.8:
        return Finding(
            Level.WRONG,
            f"{part.detail}; the quota of {quota >> 20} MB is nearly reached",
            "bring the database back, or raise plugins.pgvector.journal_quota_mb",
            part.facts,
        )
    return finding
