"""What a database holds, into files: our own format, or the host's memory files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, TextIO
from urllib.parse import quote

from hermes_pgmemory import identity
from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.maintenance import Advance, label
from hermes_pgmemory.memory_files import FILES
from hermes_pgmemory.models import Target
from hermes_pgmemory.moving import keys, lines
from hermes_pgmemory.moving.header import Header
from hermes_pgmemory.moving.homes import PROFILES
from hermes_pgmemory.moving.values import WORKSPACE, kind_of
from hermes_pgmemory.store import DatabaseFacts, Store
from hermes_pgmemory.store.moved import Moved, MovedEntry

TIMEOUT_S: Final = 60.0
DELIMITER: Final = "\n§\n"
"""What the host puts between two entries."""

LONGEST: Final = 250
"""Characters of a folder's name; a leading dot takes two more."""

BUCKETS: Final = frozenset({identity.DM_THEME, identity.GROUP_THEME})
"""Whose rows are some contact's even where they do not say whose: an adopted database
holds such rows."""

Counts = Counter[tuple[str, str]]
"""Rows by theme and kind."""


def check(store: Store, themes: Sequence[str], *, private: bool) -> None:
    """Look whether *themes* can be written.

    Raises:
        BadRequest: Nothing is known of one of them, or all of it is private.
    """
    store.moving.check_known(themes, timeout_s=TIMEOUT_S)
    if not private and BUCKETS.intersection(themes):
        raise BadRequest("what single contacts said is written with --private only")


def lines_of(
    store: Store,
    facts: DatabaseFacts,
    *,
    themes: Sequence[str],
    private: bool,
    vectors: bool,
    write: Callable[[str], object],
    advance: Advance,
) -> Counts:
    """Write all that is known of *themes*, or of all, as JSON Lines.

    Agents may go on meanwhile: what they write may or may not be among it.

    Args:
        store: Where from.
        facts: Of that database.
        themes: As the database spells them; empty takes all.
        private: Whether to include what belongs to single contacts.
        vectors: Whether to include the active model's vectors.
        write: Takes one line, its end included.
        advance: Told how many more rows were written.

    Returns:
        How many rows there were.
    """
    model = facts.model if vectors else None
    header = Header(
        exported_at=datetime.now(UTC),
        private=private,
        subject_key=keys.fingerprint(facts.subject_key),
        model=model and model.name,
        dimension=model and model.dimension,
    )
    write(f"{header.line}\n")
    counts: Counts = Counter()
    for page in _pages(store, themes, private=private, model=header.model):
        for row in page:
            write(f"{lines.encode(row)}\n")
            counts[label(row.write.theme), kind_of(row)] += 1
        advance(len(page))
    write(f"{lines.ending(counts.total())}\n")
    return counts


def files_of(
    store: Store, *, themes: Sequence[str], folder: Path, advance: Advance
) -> Counts:
    """Write the entries in use as the host's own files, one home a theme.

    The theme of the host's default profile goes to *folder* itself, the others below
    its `profiles`. Private entries stay out: a file cannot say whose they are.

    Args:
        store: Where from.
        themes: As the database spells them; empty takes all.
        folder: A folder that is empty, or not there yet.
        advance: Told how many more entries were written.

    Raises:
        BadRequest: *folder* is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise BadRequest(f"{folder} is not empty: name a new folder")
    counts: Counts = Counter()
    for theme in themes or store.moving.themes(timeout_s=TIMEOUT_S):
        with ExitStack() as opened:
            files: dict[Target, TextIO] = {}
            for page in _pages(store, [theme], private=False, model=None):
                for entry in _in_use(page):
                    target = entry.write.target
                    if target in files:
                        files[target].write(DELIMITER)
                    else:
                        path = _home(folder, theme) / FILES[target]
                        files[target] = opened.enter_context(_new(path))
                    files[target].write(entry.write.content)
                    counts[label(theme), "entries"] += 1
                    advance(1)
    return counts


def _pages(
    store: Store, themes: Sequence[str], *, private: bool, model: str | None
) -> Iterator[list[Moved]]:
    for theme in themes or store.moving.themes(timeout_s=TIMEOUT_S):
        if theme in BUCKETS and not private:
            continue
        yield from store.moving.pages(
            theme, private=private, model=model, timeout_s=TIMEOUT_S
        )


def _in_use(page: Sequence[Moved]) -> Iterator[MovedEntry]:
    for row in page:
        if isinstance(row, MovedEntry) and row.retired_at is None:
            yield row


def _home(folder: Path, theme: str) -> Path:
    """Return the folder of a theme's files."""
    if theme == WORKSPACE:
        return folder / "memories"
    return folder / PROFILES / _spelled(theme) / "memories"


def _spelled(theme: str) -> str:
    """Spell a theme as a folder: escaped, and cut where no folder's name is so long."""
    name = quote(theme, safe="")
    if len(name) > LONGEST:
        head = theme
        while len(name := quote(head, safe="")) > LONGEST - 17:
            head = head[:-1]
        name += f"~{sha256(theme.encode()).hexdigest()[:16]}"
    return f"%2E{name[1:]}" if name.startswith(".") else name


def _new(path: Path) -> TextIO:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path.open("x", encoding="utf-8", newline="\n")
