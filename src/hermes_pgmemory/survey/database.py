"""The database, and what it says of itself; asked over one connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hermes_pgmemory import embed
from hermes_pgmemory.config import Settings
from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.errors import PgMemoryError, Unavailable
from hermes_pgmemory.models import EmbeddingModel, ThemeCount
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.store import DatabaseFacts, Store, migrate
from hermes_pgmemory.store.failures import lacking
from hermes_pgmemory.store.standby import KEY
from hermes_pgmemory.store.watermarks import MOST_BEHIND, SealedIndex
from hermes_pgmemory.survey.parts import Part, State, failed, guarded

TIMEOUT_S: Final = 5.0
"""Seconds the database may take to answer."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What the database said."""

    part: Part
    facts: DatabaseFacts | PgMemoryError | None = None
    """None where it could not be asked."""
    themes: Sequence[ThemeCount] = ()
    indexes: Sequence[SealedIndex] = ()


def ask(home: Path, settings: Settings | None, *, count: bool) -> Looked:
    """Ask it everything; what takes a while only if it is to *count*."""
    if settings is None:
        return Looked(Part(State.UNKNOWN, "the settings cannot be read"))
    dsn, kind = settings.dsn.get_secret_value(), "configured"
    if not dsn:
        kind = "embedded"
        embedded = EmbeddedServer(HomePaths(home).server)
        if not embedded.status().running:
            detail = "the embedded server is not running"
            return Looked(Part(State.OFF, detail, {"kind": kind}))
        dsn = embedded.dsn
    try:
        with closing(Store(dsn, pool_size=1)) as store:
            return _asked(store, kind, count=count)
    except PgMemoryError as exc:
        return Looked(failed(exc, {"kind": kind}))


def _asked(store: Store, kind: str, *, count: bool) -> Looked:
    try:
        facts = store.verify(timeout_s=TIMEOUT_S, whole=False)
    except Unavailable:
        raise
    except PgMemoryError as exc:
        return Looked(Part(State.OK, f"{kind}, answers", {"kind": kind}), exc)
    version = f"{facts.server_version // 10_000}.{facts.server_version % 10_000}"
    told = {"kind": kind, "postgresql": version, "pgvector": facts.extension_version}
    part = Part(
        State.OK,
        f"{kind}, PostgreSQL {version}, pgvector {facts.extension_version}",
        told,
    )
    if not count:
        return Looked(part, facts)
    themes = store.counts(timeout_s=TIMEOUT_S)
    return Looked(part, facts, themes, store.sealed_indexes(timeout_s=TIMEOUT_S))


def look_at_indexes(indexes: Sequence[SealedIndex]) -> Mapping[str, Part]:
    """Tell how far each sealed index reaches, where there are any."""
    if not indexes:
        return {}
    told = [
        {
            "table": one.table.value,
            "theme": one.theme,
            "watermark": one.watermark,
            "tail": one.tail,
            "bytes": one.bytes,
        }
        for one in indexes
    ]
    tail = max(one.tail for one in indexes)
    size_mb = sum(one.bytes for one in indexes) / 1_000_000
    detail = (
        f"{len(indexes)} sealed, {size_mb:.0f} MB; behind the one that is farthest "
        f"back are {tail}{' or more' if tail == MOST_BEHIND else ''} vectors"
    )
    return {"indexes": Part(State.OK, detail, {"sealed": told})}


def look_at_standby(settings: Settings | None) -> Mapping[str, Part]:
    """Ask the server that recall asks first, where there is one."""
    dsn = settings.dsn_read.get_secret_value() if settings else ""
    return {"standby": guarded(lambda: _reading(dsn))} if dsn else {}


def _reading(dsn: str) -> Part:
    with closing(Store(dsn, pool_size=1, key=KEY)) as store:
        behind_s = store.behind_s(timeout_s=TIMEOUT_S)
    if behind_s is None:
        return Part(State.OK, "answers, and is a primary itself", {"behind_s": None})
    detail = "answers, and has replayed all that it received"
    if behind_s:
        detail = f"answers, and replays what was committed {behind_s:.0f} s ago"
    return Part(State.OK, detail, {"behind_s": behind_s})


def look_at_schema(looked: Looked) -> Part:
    """Compare its schema with the package's."""
    facts = looked.facts
    if isinstance(facts, PgMemoryError):
        return failed(facts, {})
    if facts is None:
        return Part(State.UNKNOWN, f"the database is {looked.part.state}")
    if facts.lacks:
        return Part(State.PROBLEM, lacking(facts.lacks), {"lacks": list(facts.lacks)})
    version, words = migrate.shipped()[-1].version, facts.text_search_config
    detail = f"up to date at {version}, words by {words}"
    told = {"version": version, "text_search_config": words}
    return Part(State.OK, detail, told)


def look_at_model(settings: Settings | None, looked: Looked) -> Part:
    """Compare the configured model's name with the database's; asks no model."""
    facts = looked.facts
    if settings is None:
        return Part(State.UNKNOWN, "the settings cannot be read")
    with closing(embed.make_embedder(settings)) as embedder:
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
