"""Delete everything of one contact or of one theme, for good, and prove it.

Rows of all tables, the history of entries, names in the maintenance log, what waits or
was refused in the journals of this home, what it notes of which session went on from
which, and hashes of private notes. Then every text
column of every table and every file of the journal is searched for the texts that were
deleted, and what is found is told. Without --execute nothing is deleted, only counted.

A contact is what you know: a phone number, a user or chat id, a handle, or a session
key. Nothing identifying is stored, so it is hashed as the hooks hash it, for each
platform; the rehearsal shows which of them have rows. Typed on the command line it
stays in your shell's history: without a value --contact asks for it, or reads it from
standard input.

Agents may be running: from the first moment on nothing that was said before is stored
any more, whatever journal of whatever host it still waits in. Killed at any point, run
it again. Other homes and hosts have journals of their own: run it there with --home.
Not reachable from here are backups, the server's log, and the host's own files; see
docs/how-to/forgetting.md. The status is 1 while something is left.

Examples:
  hermes-pgvector forget --contact
  hermes-pgvector forget --contact-env PHONE --platform signal --execute
  hermes-pgvector forget --theme marketing-2019 --execute
"""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser, Namespace
from getpass import getpass
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli import _database, _print, _progress
from hermes_pgmemory.cli._result import Result, Status, Table

if TYPE_CHECKING:
    from hermes_pgmemory.maintenance.forget import Forgotten
    from hermes_pgmemory.maintenance.proof import Proof
    from hermes_pgmemory.maintenance.whom import Whom
    from hermes_pgmemory.store import Store
    from hermes_pgmemory.store.forget import Held

TIMEOUT_S: Final = 30.0
_ASK: Final = "\0ask"
_HASH: Final = re.compile(r"[0-9a-f]{32}")


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `forget`."""
    whom = parser.add_mutually_exclusive_group(required=True)
    whom.add_argument(
        "--theme", metavar="NAME", help="all of a theme, spelled as `stats` spells it"
    )
    whom.add_argument(
        "--contact",
        metavar="ID",
        nargs="?",
        const=_ASK,
        help="a contact; without ID it is asked for, or read from standard input",
    )
    whom.add_argument(
        "--contact-env",
        metavar="VARIABLE",
        help="a contact, whose ID this environment variable holds",
    )
    whom.add_argument(
        "--subject",
        metavar="HASH",
        action="append",
        help="a contact, as the column subject of its rows spells it; may be repeated",
    )
    parser.add_argument(
        "--platform",
        metavar="NAME",
        help="only what the contact said on this platform, like signal",
    )
    _database.add_execute(parser)


def run(args: Namespace) -> Result:
    """Forget, or say what would be forgotten."""
    from hermes_pgmemory.maintenance import forget, whom  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415

    contact = _contact(args)
    settings = _database.settings_of(args)
    paths = HomePaths(args.home)
    with _database.opened(args, settings) as store:
        who: Whom
        held: list[Held] = []
        if args.theme is not None:
            who = whom.Whom(theme=args.theme)
        else:
            subjects = args.subject or _subjects(store, contact, args.platform)
            who, held = whom.find(store, paths, subjects=subjects)
        with _progress.bar("search") as advance:
            done = forget.forget(
                store, paths, who, held, execute=args.execute, advance=advance
            )
    return _told(done)


def _contact(args: Namespace) -> str:
    """Return what the operator calls a contact; "" where he does not.

    Raises:
        BadRequest: An argument is blank, or is no hash.
    """
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    if args.theme is not None:
        if args.platform or not args.theme.strip():
            raise BadRequest("--theme needs a name, and goes without --platform")
        return ""
    if args.subject:
        if args.platform or not all(map(_HASH.fullmatch, args.subject)):
            raise BadRequest("--subject is 32 hex digits, and goes without --platform")
        return ""
    contact = _read(args).strip()
    if not contact:
        raise BadRequest("the contact is blank")
    return contact


def _read(args: Namespace) -> str:
    if args.contact_env is not None:
        return os.environ.get(args.contact_env, "")
    if args.contact not in (_ASK, "-"):
        _print.say("the contact is in your shell's history now: --contact alone asks")
        return args.contact
    return getpass("Contact: ") if sys.stdin.isatty() else sys.stdin.readline()


def _subjects(store: Store, contact: str, platform: str | None) -> list[str]:
    """Return the hash of whatever *contact* may stand for."""
    from hermes_pgmemory.maintenance import known_as  # noqa: PLC0415

    key = bytes.fromhex(store.verify(timeout_s=TIMEOUT_S).subject_key)
    found = known_as.contacts(contact, platform=platform)
    return sorted(one.subject(key) for one in found)


def _told(done: Forgotten) -> Result:
    total = sum(done.places.values())
    text = (
        f"{total} deleted"
        if done.executed
        else f"{total} would be deleted; add --execute to do it"
    )
    tables = [
        Table(
            title="of this contact or theme",
            head=("place", "deleted"),
            rows=[(place, f"{count}") for place, count in done.places.items()],
        )
    ]
    if done.held:
        tables.insert(0, _held(done.held))
    proof = done.proof
    if proof is not None:
        text += _complain(proof)
    return Result(
        data={
            "executed": done.executed,
            "deleted": total,
            "places": dict(done.places),
            "contacts": [_shown(one) for one in done.held],
            "proof": None if proof is None else _data(proof),
        },
        tables=tables,
        text=text,
        status=Status.DONE if proof is None or proof.is_clean else Status.FAILED,
    )


def _held(held: Any) -> Table:
    rows = [tuple(map(str, _shown(one).values())) for one in held]
    return Table(
        title="rows by contact",
        head=("theme", "subject", "platform", "rows"),
        rows=rows,
    )


def _shown(one: Held) -> dict[str, Any]:
    from hermes_pgmemory.maintenance import label  # noqa: PLC0415

    return {
        "theme": label(one.theme),
        "subject": one.subject,
        "platform": one.platform or "",
        "rows": one.rows,
    }


def _data(proof: Proof) -> dict[str, Any]:
    return {
        "clean": proof.is_clean,
        "texts": proof.texts,
        "searched": proof.searched,
        "found": dict(proof.found),
        "elsewhere": dict(proof.elsewhere),
        "since": proof.since,
        "memory_files": dict(proof.in_files),
        "journals_not_rewritten": proof.not_rewritten,
        "tables_not_vacuumed": list(proof.not_vacuumed),
    }


def _complain(proof: Proof) -> str:
    """Say on standard error what an operator has to do; return the result's end."""
    if proof.found:
        _print.complain(f"texts are still in {', '.join(proof.found)}: run it again")
    for name, entries in proof.in_files.items():
        _print.complain(
            f"{entries} entries of the host's own {name} say the same: remove them "
            "there, then run this again"
        )
    if proof.not_rewritten:
        _print.complain(
            f"{proof.not_rewritten} journals are too full to be written anew beside "
            "their agents: run it again once what waits in them is stored"
        )
    if proof.elsewhere:
        told = ", ".join(f"{n} in {table}" for table, n in proof.elsewhere.items())
        _print.say(f"rows of others hold the same words, and stay: {told}")
    if proof.since:
        _print.say(f"{proof.since} were said since; run it again to delete them too")
    if proof.not_vacuumed:
        _print.say(
            f"this role may not vacuum {', '.join(proof.not_vacuumed)}: have their "
            "owner run VACUUM ANALYZE"
        )
    if not proof.is_clean:
        return f"; of {proof.texts} texts some are left"
    return f"; a search of {proof.searched} for {proof.texts} texts found none"
