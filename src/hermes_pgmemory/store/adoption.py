"""Take over a database of hermes-memory-pgvector, in place.

Every row keeps its id, its text, its times and its vector. The tables become what the
migrations make of an empty database, except that vectors stay what they are until
`hermes-pgvector convert`. All of it is part of the transaction of `migrate.apply`.

Names follow our rules, because agents do: an identity differing from its theme in case
or white space only is moved there, and one that is a contact's key goes to the bucket
of such contacts. A row of a bucket belongs to the contact whose key the original noted
next to it; where it noted none, to nobody: such a row is kept, and shown to no one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import psycopg

from hermes_pgmemory import identity
from hermes_pgmemory.contacts import Contact
from hermes_pgmemory.errors import ConfigError
from hermes_pgmemory.identity import Identity, Policy, Rule
from hermes_pgmemory.key_text import fold
from hermes_pgmemory.models import EmbeddingModel, Subject, Theme
from hermes_pgmemory.session_keys import PLATFORMS
from hermes_pgmemory.store import runlog
from hermes_pgmemory.store.facts import read_facts
from hermes_pgmemory.store.queries import QUERIES

MEMORIES: Final = "0002_memories"
"""The migration that altering the original's tables stands in for."""
AGENTS: Final = "0003_agents"
"""The migration after which the rows of the small tables come back."""

CONTACT: Final = "(a contact's key)"
"""Stands in the log for a pattern that nobody should read."""

_OPEN: Final = Policy(aliases={}, allowed_themes=(), bench_mode="bucket")
_CHATS: Final = (Rule.DIRECT_MESSAGE, Rule.GROUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one table held, and what became of it."""

    rows: int
    without_vector: int
    """`backfill` embeds them."""
    blank: int
    """`cleanup` deletes them."""
    renamed: int
    """Rows whose theme has another name now."""
    owned: int
    """Rows that belong to the contact whose key stood next to them."""
    hidden: int
    """Rows of a bucket whose contact nobody knows: shown to no one."""
    merged: int = 0
    """Rows that our names made equal to another, which has taken their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """What a take-over came to."""

    entries: Taken
    turns: Taken
    dimension: int
    granted: Sequence[str] = ()
    """Roles that could write before and may do what agents need."""
    elsewhere: Sequence[tuple[str, str]] = ()
    """Themes left as they are, with the theme that agents of that name have now."""


@dataclass(frozen=True, slots=True)
class _Fate:
    """What becomes of the rows of one identity."""

    theme: Theme
    subject: Subject | None = None
    hidden: bool = False
    private: bool = False
    """Whether the raw identity next to the rows is a contact's key."""
    named: Theme | None = None
    """The theme that agents of the name have now, where the rows stay behind."""


@dataclass(slots=True)
class Adoption:
    """One take-over; `migrate` calls the steps in this order."""

    conn: psycopg.Connection[Any]
    model: EmbeddingModel
    config: str
    """Text search configuration of the words."""
    _taken: list[Taken] = field(default_factory=list[Taken])
    _elsewhere: dict[str, str] = field(default_factory=dict[str, str])

    def begin(self) -> None:
        """Lock the tables and keep what the migrations make anew.

        Raises:
            ConfigError: *model* does not make the vectors that are stored.
        """
        self.conn.execute(QUERIES["lock_original"])
        _check_dimension(self.conn, self.model)
        self.conn.execute(QUERIES["set_aside"])

    def replaces(self, version: str) -> bool:
        """Do what migration *version* would do here; False lets it run."""
        if version != MEMORIES:
            return False
        self._take_memories()
        return True

    def follow(self, version: str) -> None:
        """Bring back what was kept, once migration *version* has run."""
        if version == AGENTS:
            self._take_agents()

    def finish(self) -> Adopted:
        """Grant, log and tell; every migration has run."""
        roles = [name for (name,) in self.conn.execute(QUERIES["writing_roles"])]
        for role in roles:
            self.conn.execute(QUERIES["name_runtime_role"], {"role": role})
            self.conn.execute(QUERIES["grant_to_runtime_role"])
        entries, turns = self._taken
        for table, taken in (("memory_entries", entries), ("conversations", turns)):
            self._log(table, taken)
        return Adopted(
            entries=entries,
            turns=turns,
            dimension=self.model.dimension,
            granted=tuple(roles),
            elsewhere=tuple(sorted(self._elsewhere.items())),
        )

    def _take_memories(self) -> None:
        self._name_themes()
        entries, turns = self.conn.execute(QUERIES["adopted_counts"]).fetchall()
        self.conn.execute(QUERIES["strip_original"])
        model = self.conn.execute(QUERIES["add_model"], asdict(self.model)).fetchall()
        stamp = {"model_id": model[0][0], "config": self.config}
        self.conn.execute(QUERIES["adopt_entries"], stamp)
        merged = self.conn.execute(QUERIES["merge_adopted_entries"]).fetchall()[0]
        self.conn.execute(QUERIES["adopt_turns"], stamp)
        self.conn.execute(QUERIES["seal_original"])
        self._taken = [_taken(entries, *merged), _taken(turns)]

    def _name_themes(self) -> None:
        key = bytes.fromhex(read_facts(self.conn).subject_key)
        rows: list[tuple[str, str, _Fate]] = []
        for old, raw in self.conn.execute(QUERIES["adopted_names"]).fetchall():
            fate = _fate(old, raw, key)
            rows.append((old, raw, fate))
            if fate.named is not None:
                self._elsewhere[old] = fate.named
        self.conn.execute(QUERIES["create_adopted_themes"])
        columns = {
            "olds": [old for old, _, _ in rows],
            "raws": [raw for _, raw, _ in rows],
            "themes": [fate.theme for _, _, fate in rows],
            "kinds": [identity.kind_of(fate.theme).value for _, _, fate in rows],
            "subjects": [fate.subject for _, _, fate in rows],
            "hidden": [fate.hidden for _, _, fate in rows],
            "private": [fate.private for _, _, fate in rows],
        }
        self.conn.execute(QUERIES["fill_adopted_themes"], columns)

    def _take_agents(self) -> None:
        self.conn.execute(QUERIES["adopt_agents"])
        self.conn.execute(QUERIES["adopt_edges"])
        patterns = self.conn.execute(QUERIES["adopted_patterns"]).fetchall()
        private = [pattern for (pattern,) in patterns if _names_contact(pattern)]
        self.conn.execute(QUERIES["adopt_log"], {"label": CONTACT, "private": private})
        self.conn.execute(QUERIES["continue_ids"])

    def _log(self, table: str, taken: Taken) -> None:
        told = {**asdict(taken), "finished": True}
        run = runlog.open_run(self.conn, "adopt", table, details=told)
        runlog.add_to_run(self.conn, run, affected=taken.rows, dropped=taken.merged)


def is_original(conn: psycopg.Connection[Any]) -> bool:
    """Tell whether the tables are those of hermes-memory-pgvector. Reads only."""
    return bool(conn.execute(QUERIES["is_original"]).fetchall()[0][0])


def _check_dimension(conn: psycopg.Connection[Any], model: EmbeddingModel) -> None:
    found = [n for (n,) in conn.execute(QUERIES["original_dimensions"]).fetchall()]
    if found != [model.dimension]:
        held = " and ".join(str(n) for n in sorted(found))
        why = (
            f"{model.name} returns vectors of {model.dimension} dimensions, the "
            f"database to take over holds {held}: set embed_url and embed_model to "
            "what its vectors came from"
        )
        raise ConfigError({"plugins.pgvector.embed_model": why})


def _taken(counts: Sequence[int], merged: int = 0, merged_bare: int = 0) -> Taken:
    rows, bare, blank, renamed, owned, hidden = counts
    return Taken(
        rows=rows,
        without_vector=bare - merged_bare,
        blank=blank,
        renamed=renamed,
        owned=owned,
        hidden=hidden,
        merged=merged,
    )


def _fate(old: str, raw: str, key: bytes) -> _Fate:
    """Decide what becomes of the rows of identity *old*, once called *raw*."""
    who = _who(old)
    if who.rule in (Rule.BENCH, Rule.BENCH_REJECTED):
        moved = who.theme if old != who.theme else None
        return _Fate(Theme(old), named=moved)
    private = bool(raw) and _names_contact(raw)
    if who.rule not in _CHATS:
        return _Fate(who.theme, private=private)
    if fold(old) != who.theme:
        return _Fate(who.theme, subject=_subject(who, key), private=private)
    noted = _who(raw)
    if private and noted.theme == who.theme and raw != old:
        return _Fate(who.theme, subject=_subject(noted, key), private=True)
    # No contact is called this, so none is ever shown these rows.
    nobody = Contact("adopted", who.theme).subject(key)
    return _Fate(who.theme, subject=nobody, hidden=True, private=private)


def _subject(who: Identity, key: bytes) -> Subject | None:
    return who.contact.subject(key) if who.contact else None


def _names_contact(text: str) -> bool:
    return any(_who(part).rule in _CHATS for part in text.split("->"))


def _who(name: str) -> Identity:
    """Resolve an old name as a run of that session key would be.

    A native key is `agent:<profile>:<platform>:<type>:<chat>`, and a chat with one
    person has that person's id on the platforms that do not tell both apart. Where it
    has not, the contact found is one that never calls: nobody sees too much.
    """
    fields = name.strip().split(":")
    native = len(fields) > 3 and fields[0] == "agent" and fold(fields[2]) in PLATFORMS
    chat = fields[4] if native and len(fields) > 4 else None
    is_direct = native and fold(fields[3]) == "dm"
    return identity.resolve(
        gateway_session_key=name,
        agent_identity=None,
        agent_workspace=None,
        platform=fields[2] if native else "api_server",
        chat_type=None,
        user_id=chat if is_direct else None,
        user_id_alt=None,
        chat_id=chat,
        policy=_OPEN,
    )
