"""The site: which address shows what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from hermes_pgmemory import __version__
from hermes_pgmemory.dashboard import asked, charts, words
from hermes_pgmemory.dashboard.asked import Where, Which
from hermes_pgmemory.dashboard.failures import explained
from hermes_pgmemory.dashboard.sources import DAYS, PATIENCE_S, Sources
from hermes_pgmemory.errors import PgMemoryError, Unavailable
from hermes_pgmemory.models import Target
from hermes_pgmemory.store.dashboard import LOOKED_AT

READ_S: Final = 5.0
"""Seconds that reading one page may take."""
PAGE: Final = 50
CHANGES: Final = 100
"""The latest changes of a theme's entries."""
HOURS: Final = 48
DRAWN: Final = 60
"""Delegations in one picture."""


def site(sources: Sources) -> Starlette:
    """Return the application, which guards nothing; see `gate`."""
    pages = Pages(sources)
    static = Path(__file__).parent / "static"
    return Starlette(
        routes=[
            Route("/", pages.overview),
            Route("/search", pages.search),
            Route("/theme", pages.entries),
            Route("/entry", pages.entry),
            Route("/changes", pages.changes),
            Route("/sessions", pages.sessions),
            Route("/session", pages.session),
            Route("/delegations", pages.delegations),
            Route("/journal", pages.journal),
            Mount("/static", StaticFiles(directory=static)),
        ],
        exception_handlers={
            PgMemoryError: pages.failed,
            HTTPException: pages.failed,
        },
    )


class Pages:
    """One method per address; each reads a page's worth and draws it."""

    def __init__(self, sources: Sources) -> None:
        """Read from *sources*."""
        self._sources = sources
        self._views = sources.views
        self._private = sources.show_private
        self._drawn = _environment(show_private=sources.show_private)

    def overview(self, _: Request) -> Response:
        """Show what the fleet holds, how busy it is, and how every part is."""
        counted = self._sources.counted.latest(patience_s=PATIENCE_S)
        health = self._sources.health.latest(patience_s=PATIENCE_S)
        value = counted.value
        activity = sparks = None
        if value is not None:
            now = datetime.now(UTC)
            activity = charts.hourly(value.hours, until=now, count=HOURS)
            sparks = charts.daily(value.hours, since=value.since, days=DAYS)
        return self._page(
            "overview.html",
            counted=counted,
            value=value,
            health=health,
            journal=self._sources.journal(),
            activity=activity,
            sparks=sparks or {},
            hours=HOURS,
            days=DAYS,
        )

    def search(self, request: Request) -> Response:
        """Show what a question finds, and why."""
        question = asked.word(request, "q")
        where = asked.choice(request, "in", Where.ALL)
        theme = asked.word(request, "theme")
        found = self._sources.find(question or "", theme=theme, where=where)
        return self._page(
            "search.html",
            question=question or "",
            where=where,
            theme=theme,
            themes=self._themes(),
            entries=found.entries,
            turns=found.turns,
            degraded=found.degraded,
        )

    def entries(self, request: Request) -> Response:
        """Show a theme's memory entries, latest change first."""
        theme = asked.needed(request, "name")
        target = asked.word(request, "target")
        which = asked.choice(request, "show", Which.ALL)
        rows = self._views.entries(
            theme,
            target=asked.choice(request, "target", Target.MEMORY) if target else None,
            retired=which.retired,
            after=asked.place(request, "after"),
            limit=PAGE + 1,
            show_private=self._private,
            timeout_s=READ_S,
        )
        return self._page(
            "entries.html",
            theme=theme,
            target=target,
            which=which,
            begun=asked.word(request, "after") is None,
            rows=self._folded(rows[:PAGE]),
            further=_further(rows, lambda row: asked.spelled(row.updated_at, row.id)),
        )

    def entry(self, request: Request) -> Response:
        """Show one memory entry whole."""
        theme = asked.needed(request, "theme")
        id_ = asked.integer(request, "id") or 0
        row = self._views.entry(
            theme, id_, show_private=self._private, timeout_s=READ_S
        )
        if row is None:
            raise HTTPException(
                HTTPStatus.NOT_FOUND, "No such memory is stored (any more)."
            )
        return self._page("entry.html", theme=theme, row=row)

    def changes(self, request: Request) -> Response:
        """Show what a theme's entries said before they were changed."""
        theme = asked.needed(request, "theme")
        rows = self._sources.changes(theme, limit=CHANGES, timeout_s=READ_S)
        return self._page("changes.html", theme=theme, rows=rows, most=CHANGES)

    def sessions(self, request: Request) -> Response:
        """Show the latest sessions of a theme."""
        theme = asked.needed(request, "theme")
        before = asked.moment(request, "before")
        seen = self._views.sessions(
            theme, before=before, show_private=self._private, timeout_s=READ_S
        )
        return self._page(
            "sessions.html",
            theme=theme,
            seen=seen,
            begun=before is None,
            further=seen.until if seen.turns >= LOOKED_AT else None,
        )

    def session(self, request: Request) -> Response:
        """Show what was said in one session, and what it delegated."""
        theme, id_ = asked.needed(request, "theme"), asked.needed(request, "id")
        after = asked.place(request, "after")
        turn = asked.integer(request, "turn")
        if turn is not None:
            after = self._views.place_before(theme, id_, turn, timeout_s=READ_S)
        rows = self._views.turns(
            theme,
            id_,
            after=after,
            limit=PAGE + 1,
            show_private=self._private,
            timeout_s=READ_S,
        )
        edges = self._views.delegations_of(
            theme, id_, limit=PAGE, show_private=self._private, timeout_s=READ_S
        )
        return self._page(
            "session.html",
            theme=theme,
            id=id_,
            turn=turn,
            rows=self._folded(rows[:PAGE]),
            begun=after.at is None,
            further=_further(rows, lambda row: asked.spelled(row.at, row.id)),
            made=self._folded([one for one in edges if one.child_session_id != id_]),
            parents=[one for one in edges if one.child_session_id == id_],
        )

    def delegations(self, request: Request) -> Response:
        """Show who delegated what to whom."""
        before = asked.moment(request, "before")
        rows = self._views.delegations(
            before=before, limit=DRAWN + 1, show_private=self._private, timeout_s=READ_S
        )
        return self._page(
            "delegations.html",
            rows=self._folded(rows[:DRAWN]),
            tree=charts.tree([one for one in rows[:DRAWN] if one.parent_session_id]),
            begun=before is None,
            further=_further(rows, lambda row: row.at.isoformat(), DRAWN),
        )

    def journal(self, _: Request) -> Response:
        """Show what waits to be stored, and what the database refused."""
        return self._page(
            "journal.html",
            journal=self._sources.journal(),
            letters=self._sources.dead_letters(),
        )

    async def failed(self, _: Request, exc: Exception) -> Response:
        """Say in a page why there is no other."""
        status, why = explained(exc)
        return self._page("failed.html", status=status, why=why)

    def _themes(self) -> Sequence[str]:
        counted = self._sources.counted.latest(patience_s=0)
        if counted.value is not None:
            return [one.theme for one in counted.value.themes]
        try:
            return self._sources.themes(timeout_s=READ_S)
        except Unavailable:
            return []  # the search itself says why

    def _folded(self, rows: Sequence[Any]) -> Sequence[tuple[int, Any]]:
        return list(words.folded(rows, show_private=self._private))

    def _page(
        self, name: str, *, status: int = HTTPStatus.OK, **more: object
    ) -> Response:
        page = self._drawn.get_template(name).render(status=status, **more)
        return HTMLResponse(page, status)


def _further(
    rows: Sequence[Any], spelled: Callable[[Any], str], page: int = PAGE
) -> str | None:
    """Return where the next page begins, if there is one."""
    return spelled(rows[page - 1]) if len(rows) > page else None


def _environment(*, show_private: bool) -> Environment:
    """Return the templates: whatever they print is escaped."""
    drawn = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters: dict[str, Any] = {
        one.__name__: one
        for one in (
            words.number,
            words.short,
            words.megabytes,
            words.share,
            words.change,
            words.span,
            words.ago,
            words.moment,
            words.cut,
        )
    }
    drawn.filters.update(filters)
    known: dict[str, Any] = {
        "url": words.url,
        "version": __version__,
        "show_private": show_private,
    }
    drawn.globals.update(known)
    for name in drawn.list_templates():
        drawn.get_template(name)  # compiled now, not while somebody waits
    return drawn
