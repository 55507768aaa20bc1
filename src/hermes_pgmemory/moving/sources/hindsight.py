"""Facts of Hindsight: an archive of a bank, or what its API lists."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from hermes_pgmemory.errors import BadRequest
from hermes_pgmemory.foreign_json import TooDeepError, parsed
from hermes_pgmemory.moving.sources.documents import items, mapping, text
from hermes_pgmemory.moving.values import Aim, Item, entry, first_moment

NAME: Final = "hindsight"
_TIMES: Final = ("mentioned_at", "occurred_start", "event_date", "date", "created_at")


def read(paths: Sequence[Path], aim: Aim) -> Iterator[Item]:
    """Yield the facts of archives, and of JSON documents."""
    # All of them, or none if one is bad.
    yield from [fact for path in paths for fact in _facts(path, aim)]


def _facts(path: Path, aim: Aim) -> Iterator[Item]:
    if path.is_file() and zipfile.is_zipfile(path):
        yield from _archive(path, aim)
    else:
        for said in items(path):
            yield _fact(said, text(said.get("bank_id")), aim)


def _archive(path: Path, aim: Aim) -> Iterator[Item]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if "manifest.json" not in names:
            raise BadRequest(f"{path} is no archive of a Hindsight bank")
        bank = text(mapping(_load(archive, "manifest.json")).get("source_bank_id"))
        for name in sorted(n for n in names if n.startswith("documents/")):
            document = mapping(_load(archive, name))
            for fact in cast("list[object]", document.get("facts") or []):
                told = {"document_id": document.get("id"), **mapping(fact)}
                yield _fact(told, bank, aim)
        if "observations.json" in names:
            seen = _load(archive, "observations.json")
            for one in cast("list[object]", seen if isinstance(seen, list) else []):
                yield _fact({"fact_type": "observation", **mapping(one)}, bank, aim)


def _load(archive: zipfile.ZipFile, name: str) -> object:
    try:
        return parsed(archive.read(name))
    except TooDeepError as exc:
        raise BadRequest(f"{archive.filename}: {name} {exc}") from None
    except ValueError as exc:
        raise BadRequest(f"{archive.filename}: {name} is not JSON") from exc


def _fact(said: Mapping[str, Any], bank: str, aim: Aim) -> Item:
    return entry(
        aim.owner(name=bank, key=bank),
        said.get("text"),
        at=first_moment(said, *_TIMES) or datetime.now(UTC),
        source=NAME,
        note={
            "import_id": text(said.get("id") or said.get("source_id")),
            "fact_type": text(said.get("fact_type") or said.get("type")),
            "document": text(said.get("document_id")),
            "context": text(said.get("context")),
            "tags": ", ".join(map(str, said.get("tags") or ())),
        },
    )
