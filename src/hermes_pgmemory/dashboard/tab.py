"""The same as our page, for a tab of the host's own dashboard.

The host lets nobody ask but its own page, and runs this in its dashboard's process,
beside no agent. Nothing connects before the first question; texts that belong to one
contact are never read.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hermes_pgmemory.config import parse
from hermes_pgmemory.dashboard import asked, told
from hermes_pgmemory.dashboard.asked import Where
from hermes_pgmemory.dashboard.failures import explained
from hermes_pgmemory.dashboard.sources import PATIENCE_S, Sources
from hermes_pgmemory.embedded import EmbeddedServer
from hermes_pgmemory.errors import PgMemoryError, SchemaError
from hermes_pgmemory.paths import HomePaths
from hermes_pgmemory.settings_file import load_section


def make_router(home: Path) -> APIRouter:
    """Return what the tab of *home* asks for: `/overview` and `/search`.

    A problem is answered as `{"detail": LINE}` with a status that fits, and what is
    set right is used from the next question on.
    """
    tab = _Tab(HomePaths(home))

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        yield
        await run_in_threadpool(tab.close)

    return APIRouter(
        routes=[Route("/overview", tab.overview), Route("/search", tab.search)],
        lifespan=lifespan,
    )


class _Tab:
    """Answers; opens its sources with the first question. Thread-safe."""

    def __init__(self, paths: HomePaths) -> None:
        self._paths = paths
        self._mutex = threading.Lock()
        self._sources: Sources | None = None

    def overview(self, _: Request) -> JSONResponse:
        """Tell what the fleet holds, and how every part is."""
        try:
            sources = self._opened()
            counted = sources.counted.latest(patience_s=PATIENCE_S)
            health = sources.health.latest(patience_s=PATIENCE_S)
            return _answer(told.overview(counted, health, sources.journal()))
        except PgMemoryError as exc:
            return _failed(exc)

    def search(self, request: Request) -> JSONResponse:
        """Tell what a question finds, and why."""
        try:
            found = self._opened().find(
                asked.needed(request, "q"),
                theme=asked.word(request, "theme"),
                where=asked.choice(request, "in", Where.ALL),
            )
            return _answer(told.found(found))
        except PgMemoryError as exc:
            return _failed(exc)

    def close(self) -> None:
        """Let go of everything."""
        with self._mutex:
            sources, self._sources = self._sources, None
        if sources is not None:
            sources.close()

    def _opened(self) -> Sources:
        with self._mutex:
            if self._sources is None:
                self._sources = _open(self._paths)
            return self._sources


def _open(paths: HomePaths) -> Sources:
    settings = parse(load_section(paths.config)).checked()
    given = settings.dsn_read.get_secret_value() or settings.dsn.get_secret_value()
    return Sources(paths, settings, given or _embedded(paths), show_private=False)


def _embedded(paths: HomePaths) -> str:
    if not paths.server.is_dir():
        raise SchemaError("no database yet: run `hermes-pgvector setup`")
    server = EmbeddedServer(paths.server)
    server.ensure_running()
    return server.dsn


def _failed(exc: PgMemoryError) -> JSONResponse:
    status, why = explained(exc)
    return _answer({"detail": why}, status)


def _answer(data: dict[str, Any], status: int = 200) -> JSONResponse:
    return JSONResponse(data, status, headers={"Cache-Control": "no-store"})
