"""Commands of hermes-pgmemory, the shared memory of hermes-agent on PostgreSQL.

Exit status: 0 done; 1 failed, and the line on standard error names what to change;
2 wrong usage; 3 something does not answer now, try again.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import logging
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from hermes_pgmemory.cli import _print
from hermes_pgmemory.cli._result import Result, Status, status_of
from hermes_pgmemory.errors import PgMemoryError
from hermes_pgmemory.paths import default_home

__all__ = ["dispatch", "main", "register_cli"]

PROG: Final = "hermes-pgvector"
_EXIT_STATUS: Final = (__doc__ or "").partition("\n\n")[2].strip()
INTERRUPTED: Final = 130
"""What a shell reports for a command ended by Ctrl-C."""


def commands() -> Iterator[tuple[str, ModuleType]]:
    """Yield every command's name and module: the files of this package.

    A module is a docstring, whose first line is the command's help and whose last
    lines are examples, `configure(parser)` and `run(args) -> Result`. It imports what
    is slow or heavy in `run` only, so that `--help` stays fast. A command whose name
    Python keeps for itself is in a file with `_` behind it.
    """
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{info.name}")
            yield info.name.removesuffix("_"), module


def register_cli(parser: argparse.ArgumentParser) -> None:
    """Add every command to *parser*; the host mounts the same tree as ours."""
    common = _common_options()
    verbs = parser.add_subparsers(
        metavar="COMMAND", dest="pgvector_verb", required=True
    )
    for name, module in commands():
        text = (module.__doc__ or "").strip()
        verb = verbs.add_parser(
            name,
            parents=[common],
            help=text.splitlines()[0],
            description=text,
            epilog=_EXIT_STATUS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.configure(verb)
        verb.set_defaults(pgvector_run=module.run)


def _common_options() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--home",
        type=Path,
        metavar="DIR",
        default=None,
        help="HERMES_HOME to act on (default: $HERMES_HOME, or ~/.hermes)",
    )
    common.add_argument("--json", action="store_true", help="print JSON")
    common.add_argument(
        "--debug", action="store_true", help="show a traceback with an error"
    )
    return common


def dispatch(args: argparse.Namespace) -> int:
    """Run the parsed command, print what it returns, and return the exit status."""
    if args.home is None:
        args.home = default_home()
    try:
        result: Result = args.pgvector_run(args)
        _print.emit(result, as_json=args.json)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as exc:  # a command's last resort: one line
        if args.debug:
            raise
        return _complain(exc)
    return result.status


def _complain(exc: Exception) -> Status:
    """Say in one line what went wrong, and choose the exit status for it."""
    if isinstance(exc, PgMemoryError):
        _print.complain(str(exc))
        return status_of(exc)
    if isinstance(exc, OSError) and exc.filename is not None:
        _print.complain(f"{exc.filename}: {exc.strerror}")
        return Status.FAILED
    _print.complain(f"{type(exc).__name__}: {exc} (--debug shows where)")
    return Status.FAILED


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of `hermes-pgvector` and return its exit status.

    Without *argv* it is the one of the process, which ends with it.
    """
    if argv is None:
        _collect_rarely()
    parser = argparse.ArgumentParser(
        prog=PROG,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, help="print the version")
    register_cli(parser)
    args = parser.parse_args(argv)
    args.home = args.home or default_home()
    # What the log says, a command says in its own words; unless one is looking.
    if args.debug:
        logging.basicConfig(level=logging.DEBUG)
    else:
        logging.getLogger("hermes_pgmemory").addHandler(logging.NullHandler())
    # In the host its main() has done this.
    from hermes_pgmemory.settings_file import load_dotenv  # noqa: PLC0415

    load_dotenv(args.home)
    return dispatch(args)


def _collect_rarely() -> None:
    """Look for garbage rarely, and not at the end: what is imported all stays.

    To look through it again and again takes a quarter of a short command's time.
    """
    gc.set_threshold(50_000, 20, 100)
    atexit.register(gc.freeze)


class _Version(argparse.Action):
    """Print the version; looked up only when asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002 - argparse's name
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it and leave."""
        from hermes_pgmemory import __version__  # noqa: PLC0415

        sys.stdout.write(f"{PROG} {__version__}\n")
        parser.exit()
