"""Facts of Hindsight: an archive of a bank, or what its API lists."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.foreign_json import TooDeepError, parsed
from hermes_pgmemory.moving.sources.documents import items, mapping, text
from hermes_pgmemory.moving.values import (
    Aim,
    Item,
    Owner,
    Skipped,
    entry,
    first_moment,
    is_contact,
)

NAME: Final = "hindsight"
INVALID: Final = "invalidated there"
UNTOLD: Final = "its list tells of no chats: export the bank, or name one --theme"
MIXED: Final = "observed in private facts, and not in one contact's alone"
_TIMES: Final = (
    *("mentioned_at", "occurred_start", "event_date", "date", "created_at"),
    *("document_at", "updated_at"),
)


@dataclass(frozen=True, slots=True)
class _Fact:
    """A fact, or what Hindsight observed in some."""

    said: Mapping[str, Any]
    bank: str
    name: str
    """What observations call it; "" if they do not."""
    seen_in: Sequence[str] = ()
    """The facts it was observed in, where that is told."""
    tells_chat: bool = True
    """Whether it would tell in which chat it was said."""

    @property
    def is_observation(self) -> bool:
        """Tell whether it was made of other facts."""
        return (self.said.get("fact_type") or self.said.get("type")) == "observation"


def read(paths: Sequence[Path], aim: Aim) -> Iterator[Item]:
    """Yield the facts of archives, and of JSON documents: of all, or of none."""
    said = [
        (fact.name, _owner(fact, aim))
        for fact in _facts(paths)
        if fact.tells_chat and not fact.is_observation
    ]
    owners = {name: owner for name, owner in said if name}
    is_private = any(subject is not None for _, (_, subject) in said)
    for fact in _facts(paths):
        owner = bank = _owner(fact, aim)
        is_told = fact.tells_chat or fact.name in owners or bool(aim.theme)
        if not fact.tells_chat:
            owner = owners.get(fact.name, bank)
        if fact.is_observation:
            owner = _seen_by(fact, owners) or (None if is_private else bank)
        if fact.said.get("state") == "invalidated":
            yield Skipped(bank[0], "entries", INVALID)
        elif not is_told:
            yield Skipped(bank[0], "entries", UNTOLD)
        elif owner is None:
            yield Skipped(bank[0], "entries", MIXED)
        else:
            yield _entry(fact, owner)


def _facts(paths: Sequence[Path]) -> Iterator[_Fact]:
    for path in paths:
        if path.is_file() and zipfile.is_zipfile(path):
            yield from _archive(path)
            continue
        for said in items(path):
            sources = said.get("source_memory_ids") or said.get("source_fact_ids")
            yield _Fact(
                said,
                bank=text(said.get("bank_id")),
                name=text(said.get("id")),
                seen_in=[text(source) for source in _list(sources)],
                tells_chat="metadata" in said,
            )


def _archive(path: Path) -> Iterator[_Fact]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if "manifest.json" not in names:
            raise BadRequest(f"{path} is no archive of a Hindsight bank")
        bank = text(mapping(_load(archive, "manifest.json")).get("source_bank_id"))
        for name in sorted(n for n in names if n.startswith("documents/")):
            document = mapping(_load(archive, name))
            number = document.get("id")
            told = {"document_id": number, "document_at": document.get("created_at")}
            for index, fact in enumerate(_list(document.get("facts"))):
                place = _place(bank, number, index)
                yield _Fact({**told, **mapping(fact)}, bank, place)
        if "observations.json" in names:
            for one in map(mapping, _list(_load(archive, "observations.json"))):
                seen_in = [
                    _place(bank, source.get("document_id"), source.get("fact_index"))
                    for source in map(mapping, _list(one.get("sources")))
                ]
                yield _Fact({"fact_type": "observation", **one}, bank, "", seen_in)


def _place(bank: str, document: object, index: object) -> str:
    """Return what stands for a fact of an archive, which observations tell by place."""
    return repr((bank, document, index))


def _list(value: object) -> Sequence[object]:
    return cast("list[object]", value) if isinstance(value, list) else ()


def _load(archive: zipfile.ZipFile, name: str) -> object:
    try:
        return parsed(archive.read(name))
    except TooDeepError as exc:
        raise BadRequest(f"{archive.filename}: {name} {exc}") from None
    except ValueError as exc:
        raise BadRequest(f"{archive.filename}: {name} is not JSON") from exc


def _owner(fact: _Fact, aim: Aim) -> Owner:
    """Decide by the chat that the host's plugin notes with a fact, else by the bank."""
    told = mapping(fact.said.get("metadata"))
    platform, chat_type = text(told.get("platform")), text(told.get("chat_type"))
    user, chat = text(told.get("user_id")), text(told.get("chat_id"))
    if platform and (chat_type or user or chat):
        return aim.heard(
            name=fact.bank, platform=platform, chat_type=chat_type, user=user, chat=chat
        )
    return aim.owner(name=fact.bank, key=fact.bank)


def _seen_by(fact: _Fact, owners: Mapping[str, Owner]) -> Owner | None:
    """Return whose all facts are that an observation was made in, None if unclear."""
    found = {owners.get(name) for name in fact.seen_in}
    return found.pop() if len(found) == 1 else None


def _entry(fact: _Fact, owner: Owner) -> Item:
    said = fact.said
    document = text(said.get("document_id"))
    return entry(
        owner,
        said.get("text"),
        at=first_moment(said, *_TIMES) or datetime.now(UTC),
        source=NAME,
        note={
            "import_id": text(said.get("id") or said.get("source_id")),
            "fact_type": text(said.get("fact_type") or said.get("type")),
            "document": "" if is_contact(document) else document,
            "context": text(said.get("context")),
            "tags": ", ".join(map(str, _list(said.get("tags")))),
        },
    )
