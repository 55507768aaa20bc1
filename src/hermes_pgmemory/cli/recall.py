"""Ask the memory what an agent would ask it, and see what is found and why.

Memory entries are searched, or with --turns what was said; nothing is written. `sure`
is how surely a row bears on the question, from 0 to 1: an agent is told entries of its
theme before a turn if that is at least the setting min_similarity, and `told` marks
these. `near` is what the row's meaning says, and `words` the share of the question's
words it holds, rare ones counting more. The order is the one that agents get.

What belongs to a contact is left out; it is shown only to who gives its --subject, as
the column of that name in a row spells it. With `dsn_read` set, that standby is asked.

Examples:
  hermes-pgvector recall "who owns the spring budget?" --theme marketing
  hermes-pgvector recall "walnut oil" --turns --since 2026-05 --limit 5 --json
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from hermes_pgmemory.cli import _database, _print
from hermes_pgmemory.cli._result import Result, Table
from hermes_pgmemory.cli._themes import minute, one_line

if TYPE_CHECKING:
    from hermes_pgmemory.models import EntryHit, TurnHit
    from hermes_pgmemory.recall import Answer
    from hermes_pgmemory.tools import Caller

TIMEOUT_S: Final = 60.0
SHOWN_CHARS: Final = 100


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments of `recall`."""
    parser.add_argument("question", metavar="QUESTION", help="a question, or key words")
    _database.add_theme(parser)
    parser.add_argument(
        "--turns", action="store_true", help="search turns of conversations instead"
    )
    parser.add_argument(
        "--subject", metavar="HASH", help="the rows of this contact, and no others"
    )
    parser.add_argument(
        "--target", choices=("memory", "user"), help="only entries of this file"
    )
    parser.add_argument(
        "--role", choices=("user", "assistant"), help="only turns that this one said"
    )
    parser.add_argument(
        "--since", metavar="TIME", help="only from then on, such as 2026-05-03"
    )
    parser.add_argument(
        "--until", metavar="TIME", help="only until then, to the end of that day"
    )
    parser.add_argument("--platform", metavar="NAME", help="only from this platform")
    parser.add_argument(
        "--limit", metavar="N", help="how many at most, 1 to 20 (default: 5)"
    )


def run(args: Namespace) -> Result:
    """Search once."""
    from hermes_pgmemory import render, tool_calls  # noqa: PLC0415
    from hermes_pgmemory.paths import HomePaths  # noqa: PLC0415
    from hermes_pgmemory.reading import Reader  # noqa: PLC0415

    _check(args)
    settings = _database.settings_of(args)
    standby = settings.dsn_read.get_secret_value()
    dsn = standby or _database.started(settings, HomePaths(args.home))
    names = ("target", "role", "since", "until", "platform", "limit")
    asked = {name: getattr(args, name) for name in names} | {"query": args.question}
    with closing(Reader(settings, dsn)) as reader:
        if args.turns:
            said = tool_calls.turns(reader.recall, asked, _caller(args))
            told, table = render.turns_answer(said.hits, said.degraded), _turns(said)
            result = _result(said, told, table)
        else:
            notes = tool_calls.entries(reader.recall, asked, _caller(args))
            told = render.entries_answer(notes.hits, notes.degraded)
            table = _entries(notes, floor=settings.min_similarity)
            result = _result(notes, told, table)
        if not result.tables and args.theme:
            reader.store.moving.check_known([args.theme], timeout_s=TIMEOUT_S)
    return result


def _check(args: Namespace) -> None:
    from hermes_pgmemory.errors import BadRequest  # noqa: PLC0415

    if args.turns and args.target:
        raise BadRequest("--target is about entries: leave it out, or --turns")
    if args.role and not args.turns:
        raise BadRequest("--role is about turns: leave it out, or add --turns")
    if args.subject and not args.theme:
        raise BadRequest("--subject needs the --theme that holds the contact's rows")


def _caller(args: Namespace) -> Caller:
    """Return who asks: an operator, whose own rows are those that are asked for."""
    from hermes_pgmemory.models import Subject, Theme  # noqa: PLC0415
    from hermes_pgmemory.tools import Caller  # noqa: PLC0415

    return Caller(
        theme=Theme(args.theme or ""),
        subject=args.subject and Subject(args.subject),
        governed=False,
        session_id="",
        scope_default="current" if args.theme else "all",
        cross_theme_recall=True,
        theme_named=Theme,
    )


def _result(
    answer: Answer[EntryHit] | Answer[TurnHit], told: dict[str, Any], table: Table
) -> Result:
    """Return what was found, with its reasons.

    Raises:
        PgMemoryError: Nothing could be searched at all.
    """
    if answer.failure is not None:
        raise answer.failure
    if answer.degraded:
        _print.say(answer.degraded)
    for one, hit in zip(told["results"], answer.hits, strict=True):
        one["why"] = asdict(hit.why)
    if not answer.hits:
        return Result(data=told, text="nothing found")
    return Result(data=told, tables=[table])


def _entries(found: Answer[EntryHit], *, floor: float) -> Table:
    rows = [
        (
            *_judged(hit),
            "told" if hit.relevance >= floor else "",
            hit.theme,
            hit.target.value,
            minute(hit.updated_at),
            one_line(hit.content, SHOWN_CHARS),
        )
        for hit in found.hits
    ]
    head = ("sure", "near", "words", "told", "theme", "target", "changed", "entry")
    return Table(title="entries", head=head, rows=rows)


def _turns(found: Answer[TurnHit]) -> Table:
    rows = [
        (
            *_judged(hit),
            hit.theme,
            one_line(hit.session_id, SHOWN_CHARS),
            hit.role.value,
            minute(hit.at),
            one_line(hit.content, SHOWN_CHARS),
        )
        for hit in found.hits
    ]
    head = ("sure", "near", "words", "theme", "session", "role", "at", "turn")
    return Table(title="turns", head=head, rows=rows)


def _judged(hit: EntryHit | TurnHit) -> tuple[str, str, str]:
    near = hit.why.nearness
    return (
        f"{hit.relevance:.2f}",
        "" if near is None else f"{near:.2f}",
        f"{hit.why.words:.2f}",
    )
