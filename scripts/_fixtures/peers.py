"""Which programs make fixtures, in which versions, and how."""

from __future__ import annotations

import base64
import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from _servers.cluster import Cluster

from _fixtures import answers, environments
from _fixtures.endpoint import Answers
from _fixtures.tables import dump

Files = dict[str, Any]
"""What each fixture holds, by its name: text as it is, anything else as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a program runs on."""

    python: Path
    cluster: Cluster
    database: str
    scratch: Path
    url: str
    """Of the endpoint that embeds and answers."""
    source: Path | None = None
    """The program's checkout, if it has one."""

    def drive(self, script: str, *words: str, **env: str) -> str:
        """Return what *script* prints, run by the program's own Python."""
        places = {
            "PG_FOLDER": str(self.cluster.folder),
            "PG_DATABASE": self.database,
            "OPENAI_BASE_URL": self.url,
            "OPENAI_API_BASE": self.url,
        }
        return environments.run(
            self.python, script, *words, scratch=self.scratch, env={**places, **env}
        )

    @property
    def dsn(self) -> str:
        """Return where the program's database is."""
        return self.cluster.dsn(self.database)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One program in one version."""

    package: str
    version: str
    make: Callable[[Stage], Files]
    answers: Answers = lambda _: {"content": ""}
    more: Sequence[str] = ()
    """What else has to be installed for it."""
    flags: Sequence[str] = ()
    dimension: int = 8
    """Of its vectors."""
    from_source: bool = False
    """Whether PyPI lacks it, so that somebody has to bring a checkout."""

    def requirements(self, source: Path | None) -> Sequence[str]:
        """Return what pip is to install."""
        if not self.from_source or source is None:
            return (f"{self.package}=={self.version}", *self.more)
        told = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
        return (*told["project"]["dependencies"], *self.more)

    @property
    def origin(self) -> str:
        """Return where the program came from."""
        return "a checkout of its source" if self.from_source else "PyPI"

    @property
    def name(self) -> str:
        """Return what its folder is called."""
        return f"{self.package}-{self.version}"


def mem0(stage: Stage, *, stores: Sequence[str]) -> Files:
    """Have mem0 keep memories in *stores*, the first of them PostgreSQL."""
    made: Files = {}
    for store in stores:
        told = json.loads(stage.drive("drive_mem0.py", store))
        made[f"{store}.jsonl"] = "".join(
            json.dumps(answer, ensure_ascii=False) + "\n" for answer in told["get_all"]
        )
        made.setdefault("history.json", told["history"])
    return {**made, "table.json": dump(stage.dsn, "mem0")}


def hindsight(stage: Stage) -> Files:
    """Have a server of Hindsight keep facts; take its lists and its archives."""
    told = json.loads(stage.drive("drive_hindsight.py"))
    return {
        name if name.endswith(".zip") else f"{name}.json": (
            base64.b64decode(held) if name.endswith(".zip") else held
        )
        for name, held in told.items()
    }


def honcho(stage: Stage) -> Files:
    """Have a server of Honcho keep messages and conclusions; take its lists."""
    told = json.loads(stage.drive("drive_honcho.py", "drive", str(stage.source)))
    return {f"{name}.json": said for name, said in told.items()}


def hexus(stage: Stage) -> Files:
    """Have the store of hexus fill its tables."""
    stage.drive("drive_hexus.py")
    tables = ("memory_entries", "conversations", "delegations")
    return {"tables.json": dump(stage.dsn, *tables)}


_DRIVER: Final = (
    *("psycopg", "psycopg-binary", "psycopg-pool", "typing-extensions"),
    *("numpy", "PyYAML"),
)
"""What the store of hexus imports."""

PEERS: Final[Sequence[Peer]] = (
    *(
        Peer(
            package="mem0ai",
            version=version,
            make=partial(mem0, stores=stores),
            answers=answers.mem0,
            more=more,
        )
        for version, stores, more in (
            ("0.1.10", ("pgvector",), ("psycopg2-binary",)),
            ("0.1.118", ("pgvector", "qdrant"), ("psycopg2-binary",)),
            ("1.0.11", ("pgvector", "qdrant"), ("psycopg[binary,pool]",)),
            ("2.2.1", ("pgvector", "qdrant"), ("psycopg[binary,pool]",)),
        )
    ),
    *(
        Peer(
            package="hindsight-api-slim",
            version=version,
            make=hindsight,
            answers=answers.hindsight,
            more=more,
        )
        # Of its time, before another driver became the default.
        for version, more in (("0.6.2", ("sqlalchemy<2.1",)), ("1.1.0", ()))
    ),
    Peer(
        package="honcho",  # the server: the package of that name is another's
        version="3.0.12",
        make=honcho,
        dimension=1536,
        from_source=True,
    ),
    *(
        Peer(
            package="hexus",
            version=version,
            make=hexus,
            # Its own requirements bring gigabytes for a model that is not run here.
            flags=("--no-deps",),
            more=_DRIVER,
        )
        for version in ("0.9.0", "0.9.2")
    ),
)
