"""Rows on their way out of a database, or into one, with all that is theirs.

They come in by the very statements that an agent's writes go through; what these cannot
tell, as when an entry was retired, is settled in the same transaction. What is there
already is left alone, so that a second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, LiteralString, cast

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.identity import kind_of
from hermes_pgmemory.models import (
    AddEntry,
    AddTurn,
    AgentKind,
    JsonScalar,
    Metadata,
    RecordDelegation,
    Role,
    SeeAgent,
    Subject,
    Target,
    Theme,
)
from hermes_pgmemory.store import arriving, failures, writes
from hermes_pgmemory.store.connection import Database
from hermes_pgmemory.store.moved import (
    Moved,
    MovedAgent,
    MovedEdge,
    MovedEntry,
    MovedTurn,
)
from hermes_pgmemory.store.ordinals import Ordinals
from hermes_pgmemory.store.queries import QUERIES


class Moving:
    """The way out of one database, or into it. Raises what `Store` raises."""

    def __init__(self, database: Database) -> None:
        """Act on *database*, which its owner closes."""
        self._database = database

    def themes(self, *, timeout_s: float) -> list[str]:
        """Return every theme that anything is known of, by name."""
        with self._database.transaction(timeout_s) as conn:
            found = [
                *conn.execute(QUERIES["stored_themes"]),
                *conn.execute(QUERIES["themes_seen"]),
            ]
        return sorted({theme for (theme,) in found})

    def check_known(self, themes: Collection[str], *, timeout_s: float) -> None:
        """Look whether something is known of each of *themes*; of none, do nothing.

        Raises:
            BadRequest: Names one that nothing is known of.
        """
        known = set(self.themes(timeout_s=timeout_s)) if themes else set[str]()
        if strangers := [theme for theme in themes if theme not in known]:
            raise BadRequest(f"no theme is called {strangers[0]}: `stats` lists them")

    def pages(
        self,
        theme: str,
        *,
        private: bool,
        model: str | None,
        limit: int = 200,
        timeout_s: float = 60,
    ) -> Iterator[list[Moved]]:
        """Yield all that is known of a theme, page by page.

        Args:
            theme: As the database spells it.
            private: Whether to include what belongs to single contacts.
            model: Whose vectors to include, if any.
            limit: Rows in one page, at least 1.
            timeout_s: Seconds one page may take.
        """
        ordinals = Ordinals()
        with self._database.transaction(timeout_s) as conn:
            seen = conn.execute(QUERIES["move_agent"], {"theme": theme}).fetchall()
        if seen:
            yield [_agent(theme, seen[0])]
        asked = {"theme": theme, "private": private, "model": model, "limit": limit}
        for query in ("move_entries", "move_turns", "move_edges"):
            after = 0
            while True:
                rows = self._page(QUERIES[query], {**asked, "after": after}, timeout_s)
                if rows:
                    yield [_moved(query, theme, row, ordinals) for row in rows]
                    after = rows[-1][0]
                if len(rows) < limit:
                    break

    def there(self, rows: Sequence[Moved], *, timeout_s: float) -> set[int]:
        """Return the places in *rows* of what is there already."""
        with self._database.transaction(timeout_s) as conn:
            return arriving.there(conn, rows)

    def forgotten(self, rows: Sequence[Moved], *, timeout_s: float) -> set[int]:
        """Return the places in *rows* of what `forget` has deleted here, or would."""
        with self._database.transaction(timeout_s) as conn:
            return writes.forgotten(conn, [row.write for row in rows])

    def keep(
        self,
        rows: Sequence[Moved],
        *,
        runs: Mapping[str, int],
        model: str | None,
        timeout_s: float,
    ) -> set[int]:
        """Keep *rows*, all or none; return the places of what was there already.

        Args:
            rows: What is to be kept.
            runs: By table, the line of the log that the new rows are added to.
            model: Whose vectors the rows bring.
            timeout_s: Seconds.

        Raises:
            ModelMismatch: Another model is the database's by now; nothing was kept.
        """

        def work() -> set[int]:
            with self._database.transaction(timeout_s) as conn:
                return arriving.keep(conn, rows, runs=runs, model=model)

        return failures.retried(work)

    def take_key(self, key: str, *, timeout_s: float) -> None:
        """Make another database's key (hex) this one's.

        Raises:
            BadRequest: Rows were made with this database's own key already, or will
                be: agents that were here know it, and keep it as long as they run.
            SchemaError: The role may not change the database's settings.
        """
        with self._database.transaction(timeout_s) as conn:
            conn.execute(QUERIES["hold_writers"])
            if conn.execute(QUERIES["was_written_to"]).fetchall()[0][0]:
                raise BadRequest(
                    "agents have stored something in this database, and hash their "
                    "contacts with its own key: the other database's private rows can "
                    "only go into one that no agent has used yet, such as a new one"
                )
            if not conn.execute(QUERIES["take_subject_key"], {"key": key}).fetchall():
                raise BadRequest(
                    "this database has private rows of its own, made with its own key: "
                    "the other database's private rows can only go into one that has "
                    "none"
                )

    def _page(
        self, query: LiteralString, asked: Mapping[str, Any], timeout_s: float
    ) -> list[tuple[Any, ...]]:
        with self._database.transaction(timeout_s) as conn:
            return conn.execute(query, asked).fetchall()


def _agent(theme: str, row: tuple[Any, ...]) -> MovedAgent:
    kind, first_seen, last_seen, attrs = row
    known = kind in AgentKind.__members__.values()
    return MovedAgent(
        write=SeeAgent(
            theme=Theme(theme),
            kind=AgentKind(kind) if known else kind_of(Theme(theme)),
            at=last_seen,
        ),
        first_seen=first_seen,
        attrs=attrs,
    )


def _moved(
    query: str, theme: str, row: tuple[Any, ...], ordinals: Ordinals
) -> MovedEntry | MovedTurn | MovedEdge:
    match query:
        case "move_entries":
            return _entry(theme, row)
        case "move_turns":
            return _turn(theme, row, ordinals)
        case _:
            return _edge(theme, row)


def _entry(theme: str, row: tuple[Any, ...]) -> MovedEntry:
    _, target, content, subject, source, created, updated, retired, *rest = row
    metadata, files, missing_from, vector = rest
    return MovedEntry(
        write=AddEntry(
            theme=Theme(theme),
            subject=_subject(subject),
            target=Target(target),
            content=content,
            at=created,
            source=source,
            metadata=_metadata(metadata),
        ),
        updated_at=updated,
        retired_at=retired,
        files=files,
        missing_from=missing_from,
        vector=vector,
    )


def _turn(theme: str, row: tuple[Any, ...], ordinals: Ordinals) -> MovedTurn:
    _, session_id, parent, role, content, at, key, embed, subject, *rest = row
    metadata, text_hash, vector = rest
    write = AddTurn(
        theme=Theme(theme),
        subject=_subject(subject),
        session_id=session_id,
        parent_session_id=parent,
        role=Role(role),
        content=content,
        ordinal=1,
        at=at,
        embed=embed,
        metadata=_metadata(metadata),
    )
    ordinal = ordinals.of(write, key)
    write.ordinal = ordinal or 1
    return MovedTurn(
        write=write,
        key=None if ordinal else key,
        text_hash=text_hash if vector else None,
        vector=vector,
    )


def _edge(theme: str, row: tuple[Any, ...]) -> MovedEdge:
    _, child, parent_session, child_session, kind, task, subject, at, attrs = row
    return MovedEdge(
        write=RecordDelegation(
            theme=Theme(theme),
            subject=_subject(subject),
            parent_session_id=parent_session,
            child_session_id=child_session,
            task=task,
            at=at,
            metadata=_metadata(attrs),
        ),
        child=child,
        kind=kind,
    )


def _subject(text: str | None) -> Subject | None:
    return None if text is None else Subject(text)


def _metadata(value: object) -> Metadata:
    """Take a row's provenance as it is; an adopted database's may be nested."""
    return cast("dict[str, JsonScalar]", value)
